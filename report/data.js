// What the page knows, unpacked from the JSON in it. See columns.py, map_data.py and job_data.py.

const byId = (id) => document.getElementById(id);
const DATA = JSON.parse(byId("data").textContent);

function unrun(pairs) {
  let length = 0;
  for (let i = 1; i < pairs.length; i += 2) length += pairs[i];
  const column = new Float64Array(length);
  for (let i = 0, at = 0; i < pairs.length; i += 2) {
    column.fill(pairs[i], at, at + pairs[i + 1]);
    at += pairs[i + 1];
  }
  return column;
}

function unrange(packed) {
  const names = [];
  for (const one of packed) {
    if (typeof one === "string") {
      names.push(one);
      continue;
    }
    const [prefix, first, count, width] = one;
    for (let n = first; n < first + count; n++) names.push(prefix + String(n).padStart(width, "0"));
  }
  return names;
}

const PLANS = DATA.names;
const HELD = unrun(DATA.jobs.before);
const JOBS = {
  ...DATA.jobs,
  names: unrange(DATA.jobs.names),
  tenant: unrun(DATA.jobs.tenant),
  priority: unrun(DATA.jobs.priority),
  before: HELD,
  plans: DATA.jobs.plans.map((plan) => ({
    decision: unrun(plan.decision),
    milli: unrun(plan.milli).map((milli, job) => (milli < 0 ? HELD[job] : milli)),
    reason: unrun(plan.reason),
    said: unrun(plan.said),
  })),
};
const [STARTED, MIGRATED, PREEMPTED, KEPT, WAITING, RESIZED] = [0, 1, 2, 3, 4, 5];
const moves = (decision) => decision === MIGRATED || decision === RESIZED;
const FREE = -1, SAME = -2, FIRST_SHARED = -3;

const MAP = (() => {
  const raw = DATA.map;
  const gpus = unrun(raw.gpus);
  const start = new Float64Array(gpus.length + 1);
  for (let h = 0; h < gpus.length; h++) start[h + 1] = start[h] + gpus[h];
  const states = raw.states.map(unrun);
  for (const later of states.slice(1)) {
    for (let g = 0; g < later.length; g++) if (later[g] === SAME) later[g] = states[0][g];
  }
  const hostOf = new Float64Array(start[gpus.length]);
  for (let h = 0; h < gpus.length; h++) hostOf.fill(h, start[h], start[h + 1]);
  return {
    ...raw, gpus, start, states, hostOf,
    hosts: unrange(raw.hosts),
    domains: raw.domains.map(unrange),
    domain: raw.domain.map(unrun),
    model: unrun(raw.model),
    condition: unrun(raw.condition),
    gpuCondition: unrun(raw.gpuCondition),
    linksOf: unrun(raw.linksOf),
  };
})();

// The jobs of a cell with what each holds, in milli-GPU.
function holders(cell) {
  if (cell === FREE) return [];
  return cell >= 0 ? [[cell, 1000]] : MAP.shared[FIRST_SHARED - cell];
}

// The GPUs of every job in a state, as [first, next) of GPUs that follow each other.
const placesOf = (() => {
  const known = [];
  return (state) => {
    if (known[state]) return known[state];
    const places = new Map();
    const cells = MAP.states[state];
    for (let g = 0; g < cells.length; g++) {
      for (const [job] of holders(cells[g])) {
        const spans = places.get(job) || places.set(job, []).get(job);
        const last = spans[spans.length - 1];
        if (last && last[1] === g && MAP.hostOf[g - 1] === MAP.hostOf[g]) last[1] = g + 1;
        else spans.push([g, g + 1]);
      }
    }
    return (known[state] = places);
  };
})();

// What is shown: a state of the map, the picked job, the cursor on the map, what the filter leaves.
const VIEW = { state: MAP.states.length > 1 ? 1 : 0, picked: -1, cursor: -1, matched: null, hosts: null };

// A plan's number for a state of the map: of the state before, and of differences, that after it.
const planOf = (state) => Math.min(Math.max(0, state - 1), PLANS.length - 1);
const DIFFERENCES = PLANS.length === 2
  ? [[0, 1, "A against before"], [0, 2, "B against before"], [1, 2, "B against A"]]
  : [[0, 1, "Difference"]];
const isDifference = (state) => state >= MAP.states.length;
const differenceOf = (state) => DIFFERENCES[state - MAP.states.length];

function gpuText(milli) {
  return (milli / 1000).toLocaleString("en", { maximumFractionDigits: 3 });
}

function countGpus(milli) {
  return `${gpuText(milli)} GPU${milli === 1000 ? "" : "s"}`;
}

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// Letters of the largest jobs: capitals for those that a plan starts or moves, small ones for others.
const LETTERS = (() => {
  const letters = new Map();
  const all = "ABCDEFGHJKLMNPQRSTUVWXYZ";
  const arrives = (job) => JOBS.plans.some((plan) => plan.decision[job] === STARTED || moves(plan.decision[job]));
  const order = [...JOBS.names.keys()].filter((job) => JOBS.plans[0].decision[job] !== WAITING || arrives(job));
  order.sort((a, b) => JOBS.plans[0].milli[b] - JOBS.plans[0].milli[a] || a - b);
  for (const [wanted, alphabet] of [[true, all], [false, all.toLowerCase()]]) {
    order.filter((job) => arrives(job) === wanted).slice(0, alphabet.length)
      .forEach((job, rank) => letters.set(job, alphabet[rank]));
  }
  return letters;
})();
