// Where each host is on the map: hosts in columns, in boxes of the innermost domain, in its groups.

const MIN_PITCH = 3, MAX_PITCH = 44, LABELLED = 8, NAMED = 12, LABEL = 15, MAX_NAME = 96;
const ROWS = 16, FONT = "11px system-ui, sans-serif";

const GROUPS = (() => {
  const inner = MAP.levels.length - 2;
  const groups = [];
  let key = null, boxKey = null;
  for (let host = 0; host < MAP.gpus.length; host++) {
    if (!MAP.gpus[host]) continue;
    const path = MAP.domain.slice(0, Math.max(0, inner)).map((row, level) => MAP.domains[level][row[host]]);
    const box = inner < 0 ? Math.floor(host / ROWS) : MAP.domain[inner][host];
    const name = path.join(" / ");
    if (key !== name || !groups.length) {
      groups.push({ name: path.length ? `${MAP.levels[inner - 1]} ${name}` : "", boxes: [] });
      key = name;
      boxKey = null;
    }
    const boxes = groups[groups.length - 1].boxes;
    if (boxKey !== box) boxes.push({ name: inner < 0 ? "" : MAP.domains[inner][box], hosts: [] });
    boxKey = box;
    boxes[boxes.length - 1].hosts.push(host);
  }
  return groups;
})();

// GPUs of a host beside each other, and its rows.
const across = (host) => (MAP.gpus[host] <= 16 ? MAP.gpus[host] : Math.max(8, Math.ceil(Math.sqrt(MAP.gpus[host]))));
const down = (host) => Math.ceil(MAP.gpus[host] / across(host));

// Lay out for a width; hosts get x and y, boxes their corners.
function layOut(pitch, width) {
  const labels = pitch >= LABELLED, gap = pitch < 6 ? 4 : 8;
  const placed = { pitch, width, height: 0, boxes: [], headings: [], x: new Float64Array(MAP.gpus.length), y: new Float64Array(MAP.gpus.length) };
  // Groups stand beside each other while they fit; one that is wider than all has rows of boxes.
  let left = 2, y = 2, lowest = 2;
  for (const group of GROUPS) {
    const whole = group.boxes.reduce((sum, box) => sum + arrange(box, pitch, width).w + gap, 0);
    if (left > 2 && left + whole > width) [left, y] = [2, lowest];
    const from = left, heading = group.name && GROUPS.length > 1 ? (labels ? 22 : 15) : 0;
    if (heading) placed.headings.push({ text: group.name, x: left, y, w: Math.min(whole, width - left), size: labels ? 12 : 10 });
    let x = left, line = y + heading, tallest = 0;
    for (const box of group.boxes) {
      const { w, h, inside, names } = arrange(box, pitch, width);
      if (x + w > width && x > from) {
        x = from;
        line += tallest + gap;
        tallest = 0;
      }
      box.hosts.forEach((host, n) => {
        placed.x[host] = x + 2 + inside[n][0];
        placed.y[host] = line + inside[n][1];
      });
      placed.boxes.push({ box, x, y: line, w, h, names });
      x += w + gap;
      tallest = Math.max(tallest, h);
    }
    lowest = Math.max(lowest, line + tallest + gap + 4);
    left = whole > width ? width : left + whole + gap + 4;
  }
  placed.height = lowest;
  return placed;
}

// How wide the names of a box's hosts are; long ones are cut.
function nameWidth(box) {
  if (box.names === undefined) {
    const context = byId("canvas").getContext("2d");
    context.font = FONT;
    box.names = Math.min(MAX_NAME, Math.max(...box.hosts.map((host) => context.measureText(MAP.hosts[host]).width))) + 8;
  }
  return box.names;
}

// The size of a box, and where its hosts are in it.
function arrange(box, pitch, width) {
  const top = pitch >= LABELLED && box.name ? LABEL : 2, seam = pitch >= 6 ? 1 : 0;
  const names = pitch >= NAMED ? nameWidth(box) : 0;
  const columnWidth = Math.max(...box.hosts.map(across)) * pitch + 3 + names;
  const most = Math.max(1, Math.floor((width - 8) / columnWidth));
  const rows = Math.max(ROWS, Math.ceil(box.hosts.length / most));
  let column = 0, row = 0, lines = 0, deepest = 0;
  const inside = box.hosts.map((host) => {
    if (row === rows) {
      column++;
      row = lines = 0;
    }
    const at = [column * columnWidth + names, top + lines * pitch + row * seam];
    row++;
    lines += down(host);
    deepest = Math.max(deepest, lines * pitch + row * seam);
    return at;
  });
  return { names, w: (column + 1) * columnWidth + 1, h: deepest + top + 1, inside };
}

// The largest pitch at which all is seen in a height, if there is one.
function fittingPitch(width, height) {
  let pitch = MAX_PITCH;
  while (pitch > MIN_PITCH && layOut(pitch, width).height > height) pitch--;
  return pitch;
}

function gpuAt(placed, x, y) {
  for (const { box, ...corner } of placed.boxes) {
    if (x < corner.x || y < corner.y || x > corner.x + corner.w || y > corner.y + corner.h) continue;
    for (const host of box.hosts) {
      const column = Math.floor((x - placed.x[host]) / placed.pitch);
      const row = Math.floor((y - placed.y[host]) / placed.pitch);
      const index = row * across(host) + column;
      if (column >= 0 && row >= 0 && column < across(host) && index < MAP.gpus[host]) return MAP.start[host] + index;
    }
  }
  return -1;
}

function cornerOf(placed, gpu) {
  const host = MAP.hostOf[gpu], index = gpu - MAP.start[host];
  return [
    placed.x[host] + (index % across(host)) * placed.pitch,
    placed.y[host] + Math.floor(index / across(host)) * placed.pitch,
  ];
}

// The next GPU from one in a direction: along its row, else the nearest in that direction.
function neighbour(placed, gpu, dx, dy) {
  const [x, y] = cornerOf(placed, gpu), half = placed.pitch / 2;
  const near = gpuAt(placed, x + half + dx * placed.pitch, y + half + dy * placed.pitch);
  if (near >= 0 && near !== gpu) return near;
  let best = gpu, least = Infinity;
  for (let host = 0; host < MAP.gpus.length; host++) {
    if (!MAP.gpus[host] || host === MAP.hostOf[gpu]) continue;
    for (const index of [0, MAP.gpus[host] - 1, Math.min(MAP.gpus[host] - 1, gpu - MAP.start[MAP.hostOf[gpu]])]) {
      const [ox, oy] = cornerOf(placed, MAP.start[host] + index);
      const along = (ox - x) * dx + (oy - y) * dy, aside = Math.abs((ox - x) * dy) + Math.abs((oy - y) * dx);
      if (along <= 0) continue;
      const far = along + 3 * aside;
      if (far < least) [best, least] = [MAP.start[host] + index, far];
    }
  }
  return best;
}
