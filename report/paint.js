// Drawing the part of the map that is seen. Every colour has a second sign: hatching, outline, letter.

const HUES = [217, 152, 28, 278, 190, 338, 96, 250, 48, 168, 310, 6];

const PAINT = { colours: {}, dark: false, patterns: new Map(), inks: new Map() };

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "muted", "line", "card", "box", "free", "accent", "bad", "kept1", "kept2", "kept3", "shade", "fresh"];
  for (const name of names) PAINT.colours[name] = style.getPropertyValue(`--${name}`).trim();
  PAINT.dark = matchMedia("screen and (prefers-color-scheme: dark)").matches;
  PAINT.patterns.clear();
}

function jobColour(job, plan) {
  const decision = JOBS.plans[plan].decision[job];
  if (decision === STARTED || moves(decision)) {
    const rank = job % HUES.length, ring = Math.floor(job / HUES.length) % 3;
    const light = PAINT.dark ? [62, 54, 70][ring] : [44, 36, 54][ring];
    return `hsl(${HUES[rank]} ${PAINT.dark ? 58 : 62}% ${light}%)`;
  }
  return PAINT.colours[`kept${(job % 3) + 1}`];
}

// Black or white, whichever is easier to read on a colour.
function inkOn(colour) {
  if (!PAINT.inks.has(colour)) {
    const tile = document.createElement("canvas").getContext("2d");
    tile.fillStyle = colour;
    tile.fillRect(0, 0, 1, 1);
    const [r, g, b] = tile.getImageData(0, 0, 1, 1).data.map((part) => 255 * (part / 255) ** 2.2);
    PAINT.inks.set(colour, 0.2126 * r + 0.7152 * g + 0.0722 * b > 46 ? "#000" : "#fff");
  }
  return PAINT.inks.get(colour);
}

function hatch(context, colour, line, ways) {
  const key = `${colour} ${line} ${ways}`;
  if (!PAINT.patterns.has(key)) {
    const size = 6, tile = document.createElement("canvas");
    tile.width = tile.height = size;
    const on = tile.getContext("2d");
    on.fillStyle = colour;
    on.fillRect(0, 0, size, size);
    on.strokeStyle = line;
    on.lineWidth = 1.4;
    on.beginPath();
    for (const shift of [-size, 0, size]) {
      if (ways.includes("/")) on.moveTo(shift, size), on.lineTo(shift + size, 0);
      if (ways.includes("\\")) on.moveTo(shift, 0), on.lineTo(shift + size, size);
    }
    on.stroke();
    PAINT.patterns.set(key, context.createPattern(tile, "repeat"));
  }
  return PAINT.patterns.get(key);
}

const [AVAILABLE, RESERVED, TO_VACATE, AWAY, UNHEALTHY] = [0, 1, 2, 3, 4];

function paint(canvas, placed, left, top, scale) {
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.translate(-left, -top);
  const bottom = top + canvas.height / scale, c = PAINT.colours;
  context.textBaseline = "alphabetic";
  context.fillStyle = c.ink;
  for (const { text, x, y, w, size } of placed.headings) {
    context.font = `600 ${size}px system-ui, sans-serif`;
    if (y < bottom && y + 2 * size > top) context.fillText(fitted(context, text, w), x, y + size + 2);
  }
  context.font = FONT;
  const seen = placed.boxes.filter(({ y, h }) => y < bottom && y + h > top);
  for (const { box, x, y, w, h, names } of seen) {
    context.fillStyle = c.box;
    context.fillRect(x, y, w, h);
    if (placed.pitch >= LABELLED && box.name) {
      context.fillStyle = c.muted;
      context.fillText(fitted(context, box.name, w - 6), x + 3, y + 11);
    }
    for (const host of names ? box.hosts : []) {
      const text = fitted(context, MAP.hosts[host], MAX_NAME);
      context.fillStyle = VIEW.hosts === null || VIEW.hosts[host] ? c.muted : c.kept2;
      context.fillText(text, placed.x[host] - names + 2, placed.y[host] + placed.pitch / 2 + 4);
    }
  }
  const cells = isDifference(VIEW.state) ? differenceCell : stateCell;
  for (const { box } of seen) for (const host of box.hosts) paintHost(context, placed, host, cells);
  paintPicked(context, placed, seen);
}

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > width) length--;
  return `${text.slice(0, length)}…`;
}

function paintHost(context, placed, host, cells) {
  const pitch = placed.pitch, size = pitch - (pitch > 2 ? 1 : 0), wide = across(host);
  const isFaint = VIEW.hosts !== null && !VIEW.hosts[host];
  for (let index = 0; index < MAP.gpus[host]; index++) {
    const x = placed.x[host] + (index % wide) * pitch, y = placed.y[host] + Math.floor(index / wide) * pitch;
    cells(context, MAP.start[host] + index, x, y, size, index % wide, isFaint);
  }
  context.globalAlpha = 1;
  if (MAP.condition[host] >= AWAY) {
    context.strokeStyle = PAINT.colours.bad;
    context.lineWidth = pitch >= 8 ? 1.5 : 1;
    const w = wide * pitch - 1, h = down(host) * pitch - 1;
    context.beginPath();
    context.moveTo(placed.x[host], placed.y[host] + h);
    context.lineTo(placed.x[host] + w, placed.y[host]);
    context.moveTo(placed.x[host], placed.y[host]);
    context.lineTo(placed.x[host] + w, placed.y[host] + h);
    context.stroke();
  }
}

function isDim(cell) {
  if (VIEW.picked >= 0) return !holders(cell).some(([job]) => job === VIEW.picked);
  if (VIEW.matched === null) return false;
  return !holders(cell).some(([job]) => VIEW.matched[job]);
}

function stateCell(context, gpu, x, y, size, column, isFaint) {
  const cell = MAP.states[VIEW.state][gpu], c = PAINT.colours, plan = planOf(VIEW.state);
  context.globalAlpha = isDim(cell) && (isFaint || VIEW.picked >= 0 || VIEW.hosts === null) ? 0.22 : 1;
  if (cell === FREE) {
    emptyCell(context, MAP.gpuCondition[gpu], x, y, size);
    return;
  }
  const parts = holders(cell);
  const whole = Math.max(1000, parts.reduce((sum, [, milli]) => sum + milli, 0));
  let from = y;
  if (cell < 0) emptyCell(context, AVAILABLE, x, y, size);
  for (const [job, milli] of parts) {
    const height = (milli / whole) * size, decision = JOBS.plans[plan].decision[job];
    const leaves = VIEW.state === 0 && (decision === PREEMPTED || moves(decision));
    const colour = VIEW.state === 0 && !leaves ? c[`kept${(job % 3) + 1}`] : jobColour(job, plan);
    if (leaves && size >= 5) context.fillStyle = hatch(context, c.kept1, c.bad, decision === PREEMPTED ? "/\\" : "/");
    else if (leaves) context.fillStyle = c.bad;
    else if (VIEW.state > 0 && moves(decision) && size >= 5) context.fillStyle = hatch(context, colour, c.card, "/");
    else context.fillStyle = colour;
    // Small cells of one job are joined to the one before.
    const joined = size < 5 && column > 0 && MAP.states[VIEW.state][gpu - 1] === cell ? 1 : 0;
    context.fillRect(x - joined, from, size + joined, cell < 0 ? Math.max(1, height - 0.5) : height);
    if (cell < 0 && height >= 11 && size >= 14 && LETTERS.has(job)) {
      glyph(context, LETTERS.get(job), x, from, size, inkOn(colour), height);
    }
    from += height;
  }
  const [job] = parts[0], isRun = column > 0 && MAP.states[VIEW.state][gpu - 1] === cell;
  if (size >= 10 && cell >= 0 && !isRun && LETTERS.has(job)) {
    const colour = VIEW.state > 0 ? jobColour(job, plan) : c[`kept${(job % 3) + 1}`];
    glyph(context, LETTERS.get(job), x, y, size, inkOn(colour));
  }
}

function emptyCell(context, condition, x, y, size) {
  const c = PAINT.colours;
  if (condition === AVAILABLE) {
    context.fillStyle = c.free;
    context.fillRect(x, y, size, size);
    if (size >= 5) {
      context.strokeStyle = c.line;
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    }
  } else if (condition >= AWAY) {
    context.fillStyle = c.shade;
    context.fillRect(x, y, size, size);
  } else {
    context.fillStyle = size >= 4 ? hatch(context, c.free, c.muted, condition === RESERVED ? "/" : "\\") : c.muted;
    context.fillRect(x, y, size, size);
  }
}

// What becomes of a GPU: it stays free or held, somebody comes, goes, or takes the place of another.
function changeOf(gpu) {
  const [from, to] = differenceOf(VIEW.state);
  const before = MAP.states[from][gpu], after = MAP.states[to][gpu];
  if (before === after) return before === FREE ? "free" : "held";
  return before === FREE ? "comes" : after === FREE ? "goes" : "other";
}

function differenceCell(context, gpu, x, y, size, _column, isFaint) {
  const [from, to] = differenceOf(VIEW.state), c = PAINT.colours;
  const dim = isDim(MAP.states[from][gpu]) && isDim(MAP.states[to][gpu]);
  context.globalAlpha = dim && (isFaint || VIEW.picked >= 0 || VIEW.hosts === null) ? 0.22 : 1;
  paintChange(context, changeOf(gpu), MAP.gpuCondition[gpu], x, y, size, c);
}

function paintChange(context, change, condition, x, y, size, c) {
  if (change === "free") return emptyCell(context, condition, x, y, size);
  if (change === "held") {
    const inset = size >= 5 ? 1.5 : 0;
    context.fillStyle = c.kept1;
    context.fillRect(x + inset, y + inset, size - 2 * inset, size - 2 * inset);
    return undefined;
  }
  if (change === "comes") {
    context.fillStyle = c.accent;
    context.fillRect(x, y, size, size);
  } else if (change === "goes") {
    context.fillStyle = c.free;
    context.fillRect(x, y, size, size);
    context.strokeStyle = c.bad;
    context.lineWidth = size >= 6 ? 2 : 1;
    context.strokeRect(x + context.lineWidth / 2, y + context.lineWidth / 2, size - context.lineWidth, size - context.lineWidth);
  } else {
    context.fillStyle = c.bad;
    context.fillRect(x, y, size, size);
    context.fillStyle = c.accent;
    context.beginPath();
    context.moveTo(x, y + size);
    context.lineTo(x + size, y + size);
    context.lineTo(x + size, y);
    context.fill();
  }
  if (size >= 10) glyph(context, { comes: "+", goes: "−", other: "↔" }[change], x, y, size, change === "goes" ? c.bad : c.fresh);
  return undefined;
}

function glyph(context, text, x, y, size, colour, height = size) {
  context.fillStyle = colour;
  context.font = `600 ${Math.min(13, height - 1)}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, x + size / 2, y + height / 2 + 0.5);
  context.textAlign = "start";
  context.textBaseline = "alphabetic";
}

// Lines between GPUs of a picked job on a host, the better the link the thicker; none where all links are alike.
function paintLinks(context, placed, host, gpus) {
  const links = MAP.links[MAP.linksOf[host]], half = (placed.pitch - 1) / 2;
  if (!links || new Set(links.rows.flat()).size < 3) return;
  const order = links.words.map((text) => text.split(":")[0]);
  for (const [n, a] of gpus.entries()) {
    for (const b of gpus.slice(n + 1)) {
      const rank = order.indexOf(links.rows[a - MAP.start[host]][b - MAP.start[host]]);
      if (rank < 0) continue;
      const [[x, y], [to, below]] = [cornerOf(placed, a), cornerOf(placed, b)];
      for (const [colour, wider] of [[PAINT.colours.card, 2], [PAINT.colours.ink, 0]]) {
        context.strokeStyle = colour;
        context.lineWidth = wider + 1 + (2 * rank) / Math.max(1, order.length - 1);
        context.beginPath();
        context.moveTo(x + half, y + half);
        context.quadraticCurveTo((x + to) / 2 + half, Math.min(y, below) - half, to + half, below + half);
        context.stroke();
      }
    }
  }
}

function paintPicked(context, placed, seen) {
  const shown = new Set(seen.flatMap(({ box }) => box.hosts));
  const states = isDifference(VIEW.state) ? differenceOf(VIEW.state).slice(0, 2) : [VIEW.state];
  context.strokeStyle = PAINT.colours.ink;
  context.lineWidth = placed.pitch >= 8 ? 2 : 1.5;
  for (const state of VIEW.picked < 0 ? [] : states) {
    for (const [first, next] of placesOf(state).get(VIEW.picked) || []) {
      if (!shown.has(MAP.hostOf[first])) continue;
      for (let gpu = first; gpu < next; gpu++) {
        const [x, y] = cornerOf(placed, gpu), isEnd = gpu + 1 === next, size = placed.pitch - 1;
        if (placed.pitch < 6) continue;
        context.beginPath();
        context.moveTo(x - (gpu === first ? 1 : 0), y - 0.5);
        context.lineTo(x + size + 1, y - 0.5);
        context.moveTo(x - (gpu === first ? 1 : 0), y + size + 0.5);
        context.lineTo(x + size + 1, y + size + 0.5);
        if (gpu === first) context.moveTo(x - 0.5, y), context.lineTo(x - 0.5, y + size);
        if (isEnd) context.moveTo(x + size + 0.5, y), context.lineTo(x + size + 0.5, y + size);
        context.stroke();
      }
    }
  }
  const last = VIEW.picked < 0 || placed.pitch < NAMED ? [] : placesOf(states.at(-1)).get(VIEW.picked) || [];
  const onHost = new Map();
  for (const [first, next] of last) {
    for (let gpu = first; gpu < next; gpu++) onHost.set(MAP.hostOf[gpu], [...(onHost.get(MAP.hostOf[gpu]) || []), gpu]);
  }
  for (const [host, gpus] of onHost) if (shown.has(host)) paintLinks(context, placed, host, gpus);
  if (VIEW.cursor >= 0 && shown.has(MAP.hostOf[VIEW.cursor])) {
    const [x, y] = cornerOf(placed, VIEW.cursor), size = placed.pitch - 1;
    context.setLineDash([3, 2]);
    context.strokeStyle = PAINT.colours.ink;
    context.lineWidth = 2;
    context.strokeRect(x - 2, y - 2, size + 4, size + 4);
    context.setLineDash([]);
  }
}
