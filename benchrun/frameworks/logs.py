"""The parser with all dialects registered: the way for all other rooms to read logs."""

from benchrun.capabilities.rl.dialects.nemo_aligner import NemoAligner
from benchrun.capabilities.rl.dialects.nemo_aligner_sft import NemoAlignerSft
from benchrun.capabilities.rl.dialects.nemo_rl import NemoRL
from benchrun.capabilities.rl.dialects.openrlhf import OpenRLHF
from benchrun.capabilities.rl.dialects.trl import Trl
from benchrun.capabilities.rl.dialects.verl import Verl
from benchrun.capabilities.rl.dialects.verl_sft import VerlSft
from benchrun.capabilities.serving.dialects import inferencemax as inferencemax
from benchrun.capabilities.serving.dialects.genai_perf import GenaiPerf
from benchrun.capabilities.serving.dialects.perf_analyzer import PerfAnalyzer
from benchrun.capabilities.serving.dialects.sglang import Sglang
from benchrun.capabilities.serving.dialects.trtllm import TensorRT
from benchrun.capabilities.serving.dialects.vllm import Vllm
from benchrun.frameworks.deepspeed.dialect import DeepSpeed
from benchrun.frameworks.hf.dialect import HuggingFace
from benchrun.frameworks.maxtext.dialect import MaxText
from benchrun.frameworks.megatron.dialect import Megatron
from benchrun.frameworks.megatron_bridge.dialect import MegatronBridge
from benchrun.frameworks.megatron_core.dialect import Worker
from benchrun.frameworks.nanotron.dialect import Nanotron
from benchrun.frameworks.nemo1.dialect import Nemo1
from benchrun.frameworks.nemo2.dialect import Nemo2
from benchrun.frameworks.nemo_automodel.dialect import NemoAutomodel
from benchrun.frameworks.paxml.dialect import Paxml
from benchrun.frameworks.torchtitan.dialect import Torchtitan
from benchrun.logs.dialect import DIALECTS, register_dialect
from benchrun.logs.files import Tail, last_rows, last_step, parse_log, parse_logs
from benchrun.logs.reader import Reader

for _dialect in (
    *(Trl, NemoAligner, NemoAlignerSft, NemoRL, Verl, VerlSft, OpenRLHF),
    *(Worker, MegatronBridge, Megatron, Nemo2, Nemo1, NemoAutomodel, Torchtitan, MaxText, Nanotron, Paxml),
    *(HuggingFace, DeepSpeed),
    *(Sglang, Vllm, TensorRT, GenaiPerf, PerfAnalyzer),
):
    register_dialect(_dialect)

__all__ = ["DIALECTS", "Reader", "Tail", "last_rows", "last_step", "parse_log", "parse_logs", "register_dialect"]
