"""The demand-bound program, its cuts, and time-indexed integer programs."""
