-- Slurm's job_submit plugin: jobs that ask for GPUs are held until Placewright releases them, as
-- long as `placewright watch` is alive. In slurm.conf: JobSubmitPlugins=lua; this file lies beside.
local HEARTBEAT, PATIENCE_S = "/var/lib/placewright/heartbeat", 600

function slurm_job_submit(job, partitions, user)
    local file, asked = io.open(HEARTBEAT), ""
    local beat = file and file:read("*n") or 0
    if file then file:close() end
    for _, key in ipairs({"tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task"}) do
        asked = asked .. (job[key] or "")
    end
    if asked:find("gpu") and job.priority ~= 0 and os.time() - beat < PATIENCE_S then
        job.priority, job.admin_comment = 0, "placewright: held, new"
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, user)
    return slurm.SUCCESS
end

return slurm.SUCCESS
