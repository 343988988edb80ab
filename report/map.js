// The map: its size and scroll, what it shows, pointer and keys.

const STATES = ["Before", ...(PLANS.length === 2 ? ["Plan A", "Plan B"] : ["After"]), ...DIFFERENCES.map(([, , name]) => name)];

function startMap(onPick) {
  const view = byId("view"), extent = byId("extent"), canvas = byId("canvas");
  let placed = null, pitch = 0, scheduled = false;

  function measure(wanted) {
    const width = Math.max(240, view.clientWidth - 2);
    const tallest = Math.max(260, Math.min(innerHeight * 0.66, 720));
    pitch = Math.max(MIN_PITCH, Math.min(MAX_PITCH, wanted || fittingPitch(width, tallest)));
    placed = layOut(pitch, width);
    const height = Math.min(Math.ceil(placed.height), tallest), scrolls = placed.height > tallest;
    view.style.height = scrolls ? `${height + 2}px` : "";
    view.style.minHeight = `${height + 2}px`;
    extent.style.height = `${placed.height}px`;
    const scale = Math.min(devicePixelRatio || 1, 2);
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    draw();
  }

  function draw() {
    scheduled = false;
    paint(canvas, placed, view.scrollLeft, view.scrollTop, canvas.width / parseFloat(canvas.style.width));
  }

  function redraw() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(draw);
  }

  function at(event) {
    const box = canvas.getBoundingClientRect();
    return gpuAt(placed, event.clientX - box.left + view.scrollLeft, event.clientY - box.top + view.scrollTop);
  }

  function scrollTo(gpu) {
    const [, y] = cornerOf(placed, gpu);
    if (y < view.scrollTop || y + pitch > view.scrollTop + view.clientHeight) view.scrollTop = y - view.clientHeight / 3;
  }

  function jobAt(gpu) {
    const states = isDifference(VIEW.state) ? differenceOf(VIEW.state).slice(0, 2).reverse() : [VIEW.state];
    const jobs = states.flatMap((state) => holders(MAP.states[state][gpu]).map(([job]) => job));
    if (!jobs.length) return -1;
    return jobs[(jobs.indexOf(VIEW.picked) + 1) % jobs.length];
  }

  view.addEventListener("scroll", redraw);
  canvas.addEventListener("click", (event) => {
    const gpu = at(event);
    VIEW.cursor = gpu;
    onPick(gpu < 0 ? -1 : jobAt(gpu), gpu);
  });
  const tip = element("div", "", { id: "tip", "aria-hidden": "true" });
  document.body.append(tip);
  canvas.addEventListener("mousemove", (event) => {
    const gpu = at(event);
    tip.hidden = gpu < 0;
    if (gpu < 0) return;
    tip.replaceChildren(...describeGpu(gpu).map((line) => element("p", line)));
    const room = innerWidth - event.clientX > 300;
    tip.style.left = room ? `${event.clientX + 14}px` : "";
    tip.style.right = room ? "" : `${innerWidth - event.clientX + 14}px`;
    tip.style.top = `${event.clientY + 14}px`;
  });
  canvas.addEventListener("mouseleave", () => (tip.hidden = true));
  tip.hidden = true;

  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  view.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (step) {
      const first = MAP.gpus.findIndex((count) => count > 0);
      VIEW.cursor = VIEW.cursor < 0 ? MAP.start[first] : neighbour(placed, VIEW.cursor, ...step);
      scrollTo(VIEW.cursor);
      showGpu(VIEW.cursor);
    } else if (event.key === "Enter" || event.key === " ") {
      if (VIEW.cursor >= 0) onPick(jobAt(VIEW.cursor), VIEW.cursor);
    } else if (event.key === "Escape") {
      VIEW.cursor = -1;
      onPick(-1, -1);
    } else {
      return;
    }
    event.preventDefault();
    redraw();
  });

  byId("smaller").addEventListener("click", () => measure(pitch - (pitch > 8 ? 2 : 1)));
  byId("larger").addEventListener("click", () => measure(pitch + (pitch >= 8 ? 2 : 1)));
  byId("fit").addEventListener("click", () => measure(0));
  choices(byId("states"), STATES, VIEW.state, (state) => {
    VIEW.state = state;
    showLegend();
    redraw();
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) measure(0);
    width = innerWidth;
  });
  const recolour = () => {
    readColours();
    showLegend();
    draw();
  };
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", recolour);
  readColours();
  measure(0);
  return { redraw, show: (gpu) => (scrollTo(gpu), redraw()) };
}

// Buttons of which one is on, as a group of radio buttons: arrow keys move between them.
function choices(holder, names, chosen, onChoose) {
  const buttons = names.map((name, number) => {
    const button = element("button", name, { type: "button", role: "radio" });
    button.addEventListener("click", () => choose(number));
    return button;
  });
  function choose(number, isFirst) {
    buttons.forEach((button, n) => {
      button.setAttribute("aria-checked", String(n === number));
      button.tabIndex = n === number ? 0 : -1;
    });
    if (!isFirst) onChoose(number);
  }
  holder.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
    buttons[next].focus();
    choose(next);
  });
  holder.append(...buttons);
  choose(chosen, true);
}
