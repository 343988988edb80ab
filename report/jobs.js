// The table of jobs: filter, order, pages, keys.

const PAGE = 50, MOST_PRINTED = 1000, HOSTS_LISTED = 6;
const ORDER = { list: [], page: 0, size: PAGE, kind: 0, column: "decision", down: false };

const COLUMNS = [
  { name: "", key: "letter", text: (job) => LETTERS.get(job) || "" },
  { name: "job", key: "name", text: (job) => JOBS.names[job], value: (job) => JOBS.names[job] },
  { name: DATA.words.tenant, key: "tenant", text: (job) => JOBS.tenants[JOBS.tenant[job]], value: (job) => JOBS.tenants[JOBS.tenant[job]] },
  { name: "priority", key: "priority", number: true, text: (job) => String(JOBS.priority[job]), value: (job) => JOBS.priority[job] },
  { name: "GPUs", key: "gpus", number: true, text: (job) => gpuText(JOBS.plans[0].milli[job]), value: (job) => JOBS.plans[0].milli[job] },
  ...PLANS.map((name, p) => ({
    name: PLANS.length === 2 ? `in ${name}` : "decision",
    key: p ? `decision${p}` : "decision",
    text: (job) => JOBS.outcomes[JOBS.plans[p].decision[job]] || "",
    value: (job) => JOBS.plans[p].decision[job],
  })),
  ...PLANS.map((name, p) => ({
    name: PLANS.length === 2 ? `where, or why, in ${name}` : "where, or why",
    key: `said${p}`,
    text: (job) => whereOrWhy(p, job),
  })),
];

function whereOrWhy(p, job) {
  const plan = JOBS.plans[p], said = JOBS.words[plan.said[job]], reason = JOBS.words[plan.reason[job]];
  if (reason) return `${reason.replaceAll("_", " ")}: ${said}`;
  const where = plan.decision[job] === PREEMPTED ? "" : hostsText(p + 1, job, HOSTS_LISTED);
  return [where, said].filter(Boolean).join("; ");
}

const differs = (job) => PLANS.length === 2 && (
  JOBS.plans[0].decision[job] !== JOBS.plans[1].decision[job]
  || hostsText(1, job, Infinity) !== hostsText(2, job, Infinity)
);
const KINDS = [
  ["All", () => true],
  ["Started", (job) => JOBS.plans.some((plan) => plan.decision[job] === STARTED)],
  ["Moved or stopped", (job) => JOBS.plans.some((plan) => [MIGRATED, RESIZED, PREEMPTED].includes(plan.decision[job]))],
  ["Waiting", (job) => JOBS.plans.some((plan) => plan.decision[job] === WAITING)],
  ["Kept", (job) => JOBS.plans.some((plan) => plan.decision[job] === KEPT)],
  ...(PLANS.length === 2 ? [["Differ", differs]] : []),
];

const lower = (names) => names.map((name) => name.toLowerCase());
const SEARCHED = {
  jobs: lower(JOBS.names),
  tenants: lower(JOBS.tenants),
  outcomes: lower(JOBS.outcomes),
  words: JOBS.words.map((word) => `${word} ${word.replaceAll("_", " ")}`.toLowerCase()),
  hosts: lower(MAP.hosts),
  domains: MAP.domains.map(lower),
};

// Note which jobs and hosts have all words of the filter.
function filterBy(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean), searched = SEARCHED;
  VIEW.matched = VIEW.hosts = null;
  if (!words.length) return;
  VIEW.hosts = Uint8Array.from(searched.hosts, (host, h) => {
    const names = [host, ...MAP.domain.map((row, level) => searched.domains[level][row[h]])];
    return words.every((word) => names.some((name) => name.includes(word)));
  });
  VIEW.matched = Uint8Array.from(searched.jobs, (name, job) => words.every((word) => (
    name.includes(word) || searched.tenants[JOBS.tenant[job]].includes(word)
    || JOBS.plans.some((plan) => (searched.outcomes[plan.decision[job]] || "").includes(word)
      || searched.words[plan.reason[job]].includes(word) || searched.words[plan.said[job]].includes(word))
  )));
  if (!VIEW.hosts.includes(1)) return;
  MAP.states.forEach((_, state) => placesOf(state).forEach((spans, job) => {
    if (spans.some(([first]) => VIEW.hosts[MAP.hostOf[first]])) VIEW.matched[job] = 1;
  }));
}

function listJobs() {
  const [, isWanted] = KINDS[ORDER.kind], column = COLUMNS.find(({ key }) => key === ORDER.column);
  const list = [];
  for (let job = 0; job < JOBS.names.length; job++) {
    if ((VIEW.matched === null || VIEW.matched[job]) && isWanted(job)) list.push(job);
  }
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  list.sort((a, b) => (ORDER.down ? -1 : 1) * compare(column.value(a), column.value(b))
    || JOBS.plans[0].milli[b] - JOBS.plans[0].milli[a] || a - b);
  ORDER.list = list;
  ORDER.page = Math.min(ORDER.page, Math.max(0, Math.ceil(list.length / ORDER.size) - 1));
}

function showJobs() {
  const body = byId("job-table").tBodies[0], first = ORDER.page * ORDER.size;
  const shown = ORDER.list.slice(first, first + ORDER.size);
  body.replaceChildren(...shown.map((job, n) => {
    const row = element("tr", undefined, { "data-job": job, tabindex: n ? "-1" : "0" });
    if (job === VIEW.picked) row.setAttribute("aria-current", "true");
    for (const column of COLUMNS) {
      const cell = element("td", column.text(job), column.number ? { class: "number" } : {});
      if (column.key === "letter") cell.className = "mark";
      if (column.key === "name") cell.className = "name";
      if (column.key.startsWith("decision")) cell.className = `decision d${column.value(job)}`;
      row.append(cell);
    }
    return row;
  }));
  const current = body.querySelector("[aria-current]");
  if (current) {
    body.rows[0].tabIndex = -1;
    current.tabIndex = 0;
  }
  const all = ORDER.list.length;
  byId("page").textContent = all ? `${first + 1} to ${first + shown.length} of ${all.toLocaleString("en")}` : "no job";
  byId("earlier").disabled = ORDER.page === 0;
  byId("later").disabled = first + ORDER.size >= all;
  byId("matches").textContent = VIEW.matched === null ? "" : `${all.toLocaleString("en")} jobs`;
}

function startJobs() {
  const table = byId("job-table"), body = table.tBodies[0], head = element("tr");
  for (const column of COLUMNS) {
    const cell = element("th", undefined, { scope: "col", ...(column.number ? { class: "number" } : {}) });
    if (column.value) {
      const button = element("button", column.name, { type: "button" });
      button.addEventListener("click", () => {
        ORDER.down = ORDER.column === column.key ? !ORDER.down : Boolean(column.number);
        ORDER.column = column.key;
        ORDER.page = 0;
        head.querySelectorAll("th").forEach((one) => one.removeAttribute("aria-sort"));
        cell.setAttribute("aria-sort", ORDER.down ? "descending" : "ascending");
        listJobs();
        showJobs();
      });
      cell.append(button);
    } else {
      cell.textContent = column.name;
    }
    head.append(cell);
  }
  table.tHead.append(head);
  const turn = (by) => () => {
    ORDER.page += by;
    showJobs();
  };
  byId("earlier").addEventListener("click", turn(-1));
  byId("later").addEventListener("click", turn(1));
  body.addEventListener("keydown", (event) => {
    const row = event.target.closest("tr");
    const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling, Home: body.rows[0], End: body.rows[body.rows.length - 1] }[event.key];
    if (event.key === "Enter" || event.key === " ") {
      pick(Number(row.dataset.job));
      body.querySelector("[aria-current]")?.focus();
    } else if (event.key === "Escape") {
      pick(-1);
    } else if (next) {
      row.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    } else {
      return;
    }
    event.preventDefault();
  });
  // On paper there are no pages to turn.
  const resize = (size) => () => {
    ORDER.size = size;
    ORDER.page = 0;
    showJobs();
  };
  addEventListener("beforeprint", resize(MOST_PRINTED));
  addEventListener("afterprint", resize(PAGE));
  choices(byId("kinds"), KINDS.map(([name]) => name), 0, (kind) => {
    ORDER.kind = kind;
    ORDER.page = 0;
    listJobs();
    showJobs();
  });
  listJobs();
  showJobs();
}
