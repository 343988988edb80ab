"""Link matrices of hosts from what tools print of them: nvidia-smi, rocm-smi, NCCL."""
