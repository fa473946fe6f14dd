"""HolisticTraceAnalysis's answer to the question that mfu-analyze answers: PROGRAM TRACE."""

import logging
import sys

from hta.trace_analysis import TraceAnalysis

logging.disable(logging.INFO)
analysis = TraceAnalysis(trace_files={0: sys.argv[1]})
print(analysis.get_temporal_breakdown(visualize=False))
print(analysis.get_comm_comp_overlap(visualize=False))
