// What tests ask of a page.

function colours() {
  const canvas = document.getElementById("canvas"), seen = new Set();
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3]) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  }
  return seen.size;
}

// Where a GPU is on the map: where the pointer is told of it.
function cellOf(host, gpu) {
  const canvas = document.getElementById("canvas"), tip = document.getElementById("tip");
  const box = canvas.getBoundingClientRect();
  for (let y = 1; y < box.height; y += 3) {
    for (let x = 1; x < box.width; x += 3) {
      canvas.dispatchEvent(new MouseEvent("mousemove", { clientX: box.left + x, clientY: box.top + y }));
      if (!tip.hidden && tip.textContent.startsWith(`${host}, GPU ${gpu}`)) return { x: x + 3, y: y + 3 };
    }
  }
  return null;
}

// What can be used and has no name.
function nameless() {
  const used = document.querySelectorAll("button, input, [role=application], [role=region]");
  return [...used].filter((one) => !(one.textContent.trim() || one.getAttribute("aria-label")
    || one.labels?.length || one.getAttribute("aria-labelledby"))).map((one) => one.outerHTML);
}

// Texts with less contrast than WCAG 2 asks for.
function faint() {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).slice(0, 3).map((part) => {
      const c = part / 255;
      return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!colour.endsWith(", 0)")) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const texts = document.querySelectorAll("p, td, th, dt, dd, h1, h2, h3, b, span, a, button, em");
  return [...texts].filter((one) => one.offsetParent && one.textContent.trim() && !one.disabled)
    .map((one) => {
      const [a, b] = [light(getComputedStyle(one).color), light(behind(one))];
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), one.textContent.trim().slice(0, 40)];
    }).filter(([ratio]) => ratio < 4.5);
}
