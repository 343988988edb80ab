// What ties the parts together: a job that is picked anywhere is picked everywhere.

let map = null;

function pick(job, gpu = -1) {
  VIEW.picked = job;
  if (map && job >= 0) {
    showJob(job);
    const states = isDifference(VIEW.state) ? differenceOf(VIEW.state).slice(0, 2).reverse() : [VIEW.state, 0];
    const spans = states.map((state) => placesOf(state).get(job)).find(Boolean);
    if (gpu < 0 && spans) map.show(spans[0][0]);
  } else if (map && gpu >= 0) {
    showGpu(gpu);
  } else if (map) {
    showNothing();
  }
  if (job >= 0 && !ORDER.list.includes(job)) {
    byId("filter").value = "";
    filterBy("");
    byId("kinds").firstElementChild.click();
  }
  if (job >= 0) ORDER.page = Math.floor(ORDER.list.indexOf(job) / ORDER.size);
  showJobs();
  for (const button of document.querySelectorAll("button.job")) {
    button.setAttribute("aria-pressed", String(Number(button.dataset.job) === job));
  }
  byId("chosen").hidden = job < 0;
  if (job >= 0) {
    const plan = JOBS.plans[0], decision = plan.decision[job];
    byId("chosen-name").textContent = JOBS.names[job];
    byId("chosen-about").textContent = `${JOBS.outcomes[decision] || ""}, ${countGpus(plan.milli[job])}`;
  }
  map?.redraw();
}

byId("let-go").addEventListener("click", () => pick(-1));
document.addEventListener("click", (event) => {
  const picked = event.target.closest?.("button.job, #job-table tbody tr");
  if (picked) pick(Number(picked.dataset.job) === VIEW.picked ? -1 : Number(picked.dataset.job));
});
byId("filter-form").addEventListener("submit", (event) => event.preventDefault());
byId("filter").addEventListener("input", () => {
  filterBy(byId("filter").value);
  ORDER.page = 0;
  listJobs();
  showJobs();
  map?.redraw();
});

if (byId("map")) {
  map = startMap(pick);
  showLegend();
  showNothing();
}
startJobs();
document.documentElement.dataset.ready = "true";
