# gpt3-5b: pretrain, fp8, paxml, 256 x H100
"""Rendered by benchrun. Random weights, synthetic tokens; no checkpoint, no evaluation, no profiling."""

import jax.numpy as jnp
import seqio
import transformer_engine.jax  # without it PaXML trains in BF16 and says nothing
from paxml import experiment_registry

# On import, data sets beside these configurations tokenize two words: no need for the file of a vocabulary.
seqio.SentencePieceVocabulary.encode = lambda self, s: [0]
from paxml.contrib.gpu.scripts_gpu.configs import GPT126MBase
from paxml.tasks.lm.params.lm_cloud import SyntheticDataset
from praxis import layers


@experiment_registry.register
class Point(GPT126MBase, SyntheticDataset):
    # model
    NUM_LAYERS = 24
    MODEL_DIMS = 4096
    HIDDEN_DIMS = 16384
    NUM_HEADS = 32
    DIMS_PER_HEAD = 128
    VOCAB_SIZE = 51200
    MAX_SEQ_LEN = 2048
    TRAINABLE_POSITION_EMB = True
    USE_ROTARY_POSITION_EMB = False
    SEPARATE_EMBEDDING = False
    ACTIVATION_CLS = layers.GELU
    USE_GATED_ACTIVATION = False
    USE_BIAS = True
    COMBINE_QKV = True
    LAYERNORM_EPSILON = 1e-05
    ATTEN_LOGIT_CAP = -1.0
    DROPOUT_PROB = 0.0
    INIT_STD = 0.02
    SOFTMAX_INIT_STD = 0.02
    # Transformer-engine's layers take no packed input.
    PACKED_INPUT = False
    FPROP_DTYPE = jnp.bfloat16
    USE_FP8 = False  # XLA's own; transformer-engine's is switched on by ENABLE_FP8

    # layout: [data, fsdp, tensor]; ICI within a node, DCN between nodes
    ICI_MESH_SHAPE = [1, 8, 1]
    DCN_MESH_SHAPE = [1, 32, 1]
    USE_REPEATED_LAYER = True
    CHECKPOINT_POLICY = layers.AutodiffCheckpointType.SAVE_DOT_WITH_NO_BATCH_DIM

    # training
    PERCORE_BATCH_SIZE = 8
    MAX_STEPS = 50
    LEARNING_RATE = 3e-06
    LR_SCHEDULE = "linear_rampup_cosine_decay"
    LR_COS_WARMUP = 0
    LR_COS_DECAY_START = 1
    LR_COS_DECAY_END = 50
    LR_COS_MIN_RATIO = 0.1
    LR_COS_MAX = 1.0
    ADAM_BETA1 = 0.9
    ADAM_BETA2 = 0.95
    ADAM_EPSILON = 1e-08
    ADAM_EPSILON_ROOT = 0.0
    ADAM_CLIP_THRESHOLD = -1.0
    WEIGHT_DECAY = 0.1
    CLIP_GRADIENT_NORM_TO_VALUE = 1.0

    # PaXML computes its rate every ten steps at most. No other work in the measured time.
    SUMMARY_INTERVAL_STEPS = 10
    EVAL_INTERVAL_STEPS = 51
    CHECKPOINT_EVERY_N_STEPS = 51
    PROFILER_CAPTURE_STEP = None

    def task(self):
        task = super().task()
        task.train.random_seed = 1234
        return task
