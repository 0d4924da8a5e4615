"""The parser with all dialects registered: the way for all other rooms to read logs."""

from benchrun.frameworks.dialects import inferencemax as inferencemax
from benchrun.frameworks.dialects.deepspeed import DeepSpeed
from benchrun.frameworks.dialects.genai_perf import GenaiPerf
from benchrun.frameworks.dialects.huggingface import HuggingFace
from benchrun.frameworks.dialects.maxtext import MaxText
from benchrun.frameworks.dialects.megatron import Megatron
from benchrun.frameworks.dialects.megatron_bridge import MegatronBridge
from benchrun.frameworks.dialects.nanotron import Nanotron
from benchrun.frameworks.dialects.nemo1 import Nemo1
from benchrun.frameworks.dialects.nemo2 import Nemo2
from benchrun.frameworks.dialects.nemo_aligner import NemoAligner
from benchrun.frameworks.dialects.nemo_aligner_sft import NemoAlignerSft
from benchrun.frameworks.dialects.nemo_automodel import NemoAutomodel
from benchrun.frameworks.dialects.nemo_rl import NemoRL
from benchrun.frameworks.dialects.openrlhf import OpenRLHF
from benchrun.frameworks.dialects.paxml import Paxml
from benchrun.frameworks.dialects.perf_analyzer import PerfAnalyzer
from benchrun.frameworks.dialects.sglang import Sglang
from benchrun.frameworks.dialects.torchtitan import Torchtitan
from benchrun.frameworks.dialects.trl import Trl
from benchrun.frameworks.dialects.trtllm import TensorRT
from benchrun.frameworks.dialects.verl import Verl
from benchrun.frameworks.dialects.verl_sft import VerlSft
from benchrun.frameworks.dialects.vllm import Vllm
from benchrun.frameworks.dialects.worker import Worker
from benchrun.parse.dialect import DIALECTS, register_dialect
from benchrun.parse.files import Tail, last_rows, last_step, parse_log, parse_logs
from benchrun.parse.reader import Reader

for _dialect in (
    *(Trl, NemoAligner, NemoAlignerSft, NemoRL, Verl, VerlSft, OpenRLHF),
    *(Worker, MegatronBridge, Megatron, Nemo2, Nemo1, NemoAutomodel, Torchtitan, MaxText, Nanotron, Paxml),
    *(HuggingFace, DeepSpeed),
    *(Sglang, Vllm, TensorRT, GenaiPerf, PerfAnalyzer),
):
    register_dialect(_dialect)

__all__ = ["DIALECTS", "Reader", "Tail", "last_rows", "last_step", "parse_log", "parse_logs", "register_dialect"]
