// What is picked, and the legend, beside the map.

const MOST_LETTERS = 12, HOSTS_PICKED = 24;

function describeGpu(gpu) {
  const host = MAP.hostOf[gpu], index = gpu - MAP.start[host];
  const path = MAP.domain.map((row, level) => `${MAP.levels[level]} ${MAP.domains[level][row[host]]}`);
  const lines = [`${MAP.hosts[host]}, GPU ${index}`, [...path, MAP.models[MAP.model[host]]].join(", ")];
  const condition = MAP.gpuCondition[gpu];
  if (condition !== AVAILABLE) lines.push(MAP.conditions[condition]);
  MAP.states.forEach((cells, state) => lines.push(`${STATES[state]}: ${cellText(cells[gpu], state)}`));
  return lines;
}

function cellText(cell, state) {
  if (cell === FREE) return "free";
  return holders(cell).map(([job, milli]) => {
    const decision = state ? JOBS.plans[planOf(state)].decision[job] : -1;
    const share = milli < 1000 ? ` ${gpuText(milli)}` : "";
    return `${JOBS.names[job]}${share}${decision >= 0 ? ` (${JOBS.outcomes[decision]})` : ""}`;
  }).join(", ");
}

function showGpu(gpu) {
  const lines = describeGpu(gpu).map((line, n) => element(n ? "p" : "h3", line));
  byId("picked").replaceChildren(...lines, ...linkMatrix(MAP.hostOf[gpu], [gpu]));
}

// How the GPUs of a host are joined, some of them marked; nothing where no link is known.
function linkMatrix(host, marked) {
  const links = MAP.links[MAP.linksOf[host]];
  if (!links || !links.rows.length) return [];
  const count = MAP.gpus[host], mine = new Set(marked.map((gpu) => gpu - MAP.start[host]));
  const table = element("table", undefined, { class: "links" });
  table.append(element("caption", `Links of ${MAP.hosts[host]}`));
  const head = element("tr");
  head.append(element("td"), ...Array.from({ length: count }, (_, gpu) => element("th", gpu, { scope: "col" })));
  table.append(head);
  for (let a = 0; a < count; a++) {
    const row = element("tr");
    row.append(element("th", a, { scope: "row" }));
    for (let b = 0; b < count; b++) {
      row.append(element("td", links.rows[a][b], mine.has(a) && mine.has(b) ? { class: "mine" } : {}));
    }
    table.append(row);
  }
  const frame = element("div", undefined, { class: "matrix", tabindex: 0, role: "region", "aria-label": `Links of ${MAP.hosts[host]}` });
  frame.append(table);
  return [frame, element("p", links.words.join("; "), { class: "note" })];
}

// The link matrix of the first host of a job, with the GPUs that it has there.
function linksOfJob(job) {
  const states = isDifference(VIEW.state) ? differenceOf(VIEW.state).slice(0, 2).reverse() : [VIEW.state, 0];
  const spans = states.map((state) => placesOf(state).get(job)).find(Boolean);
  if (!spans) return [];
  const host = MAP.hostOf[spans[0][0]], gpus = [];
  for (const [first, next] of spans) for (let gpu = first; gpu < next; gpu++) if (MAP.hostOf[gpu] === host) gpus.push(gpu);
  return gpus.length > 1 ? linkMatrix(host, gpus) : [];
}

// Where a job is: its first hosts with their GPUs, and how many hosts more.
function hostsText(state, job, most) {
  const spans = placesOf(state).get(job) || [];
  const hosts = new Map();
  for (const [first, next] of spans) {
    const host = MAP.hostOf[first], from = first - MAP.start[host], to = next - 1 - MAP.start[host];
    hosts.set(host, [...(hosts.get(host) || []), from === to ? `${from}` : `${from}-${to}`]);
  }
  const all = [...hosts].map(([host, parts]) => `${MAP.hosts[host]}:${parts.join(",")}`);
  const more = all.length - most;
  return more > 0 ? `${all.slice(0, most).join(", ")} and ${more.toLocaleString("en")} more` : all.join(", ");
}

function showJob(job) {
  const rows = [];
  const add = (name, value) => value !== "" && rows.push(element("dt", name), element("dd", value));
  add(DATA.words.Tenant, JOBS.tenants[JOBS.tenant[job]]);
  add("Priority", String(JOBS.priority[job]));
  if (JOBS.before[job]) add("Before", countGpus(JOBS.before[job]));
  add("On", hostsText(0, job, HOSTS_PICKED));
  JOBS.plans.forEach((plan, p) => {
    const decision = plan.decision[job], name = PLANS.length === 2 ? `Plan ${PLANS[p]}` : "Plan";
    if (decision < 0) return;
    add(name, `${JOBS.outcomes[decision]}, ${countGpus(plan.milli[job])}`);
    add("Why", JOBS.words[plan.reason[job]].replaceAll("_", " "));
    add("", JOBS.words[plan.said[job]]);
    add("On", decision === WAITING || decision === PREEMPTED ? "" : hostsText(p + 1, job, HOSTS_PICKED));
  });
  const list = element("dl");
  list.append(...rows);
  const title = element("h3", JOBS.names[job]);
  if (LETTERS.has(job)) title.prepend(element("span", LETTERS.get(job), { class: "letter" }), " ");
  const clear = element("button", "Let go", { type: "button", class: "clear" });
  clear.addEventListener("click", () => pick(-1));
  byId("picked").replaceChildren(title, list, ...linksOfJob(job), clear);
}

// What to pick, and the largest jobs by their letters.
function showNothing() {
  const text = "Pick a job in the map or in a table to see where it is, before and after.";
  const list = element("ol", undefined, { class: "letters", "aria-label": "Largest jobs" });
  for (const [job, letter] of [...LETTERS].slice(0, MOST_LETTERS)) {
    const entry = element("li");
    const button = element("button", JOBS.names[job], { type: "button", class: "job", "data-job": job });
    const milli = Math.max(...JOBS.plans.map((plan) => plan.milli[job]));
    entry.append(element("span", letter, { class: "letter" }), button, element("span", countGpus(milli), { class: "much" }));
    list.append(entry);
  }
  byId("picked").replaceChildren(element("p", text, { class: "note" }), list);
}

function legendEntry(text, draw) {
  const swatch = element("canvas", undefined, { width: 32, height: 32, class: "swatch", "aria-hidden": "true" });
  const context = swatch.getContext("2d");
  context.scale(2, 2);
  draw(context);
  const line = element("p");
  line.append(swatch, text);
  return line;
}

function showLegend() {
  const c = PAINT.colours, entries = [];
  const filled = (style) => (context) => {
    context.fillStyle = typeof style === "function" ? style(context) : style;
    context.fillRect(1, 1, 14, 14);
  };
  if (isDifference(VIEW.state)) {
    const changes = { comes: "+ a job comes", goes: "− a job goes", other: "↔ another job", held: "held as it was", free: "free as it was" };
    for (const [change, text] of Object.entries(changes)) {
      entries.push(legendEntry(text, (context) => paintChange(context, change, AVAILABLE, 1, 1, 14, c)));
    }
  } else {
    const decisions = new Set(JOBS.plans[planOf(VIEW.state)].decision);
    if (VIEW.state > 0) {
      if (decisions.has(STARTED)) entries.push(legendEntry("started: a colour, a capital", filled(jobColour(JOBS.plans[planOf(VIEW.state)].decision.indexOf(STARTED), planOf(VIEW.state)))));
      if (decisions.has(MIGRATED) || decisions.has(RESIZED)) entries.push(legendEntry("moved here: hatched", filled((context) => hatch(context, c.accent, c.card, "/"))));
      if (decisions.has(KEPT)) entries.push(legendEntry("kept: grey, a small letter", filled(c.kept1)));
    } else {
      entries.push(legendEntry("runs", filled(c.kept1)));
      if (decisions.has(MIGRATED) || decisions.has(RESIZED)) entries.push(legendEntry("runs, and moves: hatched", filled((context) => hatch(context, c.kept1, c.bad, "/"))));
      if (decisions.has(PREEMPTED)) entries.push(legendEntry("runs, and stops: hatched twice", filled((context) => hatch(context, c.kept1, c.bad, "/\\"))));
    }
    entries.push(legendEntry("free", (context) => emptyCell(context, AVAILABLE, 1, 1, 14)));
  }
  const conditions = new Set([...MAP.gpuCondition]);
  for (const condition of [RESERVED, TO_VACATE, AWAY, UNHEALTHY]) {
    if (!conditions.has(condition)) continue;
    entries.push(legendEntry(MAP.conditions[condition], (context) => {
      emptyCell(context, condition, 1, 1, 14);
      if (condition < AWAY) return;
      context.strokeStyle = c.bad;
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(1, 15);
      context.lineTo(15, 1);
      context.moveTo(1, 1);
      context.lineTo(15, 15);
      context.stroke();
    }));
  }
  byId("legend").replaceChildren(...entries);
}
