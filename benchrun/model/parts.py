"""Parts of a model that only some models have: experts, latent attention, state-space
layers, windows."""

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveFloat

from .layout import Frozen, Size


class Moe(Frozen):
    """Mixture of experts: a layer's MLP becomes ``num_experts`` of them, of which a
    token uses ``topk``."""

    num_experts: Size
    """Experts per layer."""
    topk: Size
    """Experts per token."""
    ffn_hidden_size: Size
    """Inner width of one expert's MLP."""
    aux_loss_coeff: float = 0.01
    """Weight of the load-balancing loss."""
    capacity_factor: PositiveFloat | None = None
    """Largest number of tokens of an expert, in multiples of the even share; null drops
    none."""
    force_balance: bool = False
    """Route at random so that every expert gets the same load: steady timing,
    meaningless loss."""
    shared_ffn_hidden_size: Size | None = None
    """Inner width of the MLP that every token uses beside its experts: that of all
    shared experts together."""
    latent_size: Size | None = None
    """Width to which tokens are projected before the routed experts, and back after
    them; null: ``hidden_size``."""
    leading_dense_layers: NonNegativeInt = 0
    """Layers at the start that have the model's own MLP in place of experts."""
    every: Size | None = None
    """Each n-th layer has experts, the others the model's own MLP; null: all layers
    have."""
    sigmoid: bool = False
    """The router scores each expert by a sigmoid; else all of them by a softmax."""
    expert_bias: bool = False
    """A bias of each expert, which no gradient changes, balances the load; only with
    ``sigmoid``."""
    num_groups: Size | None = None
    """Groups of experts, as of one node; a token uses experts of ``topk_groups`` of
    them. Null: all experts."""
    topk_groups: Size | None = None
    """Number of groups that a token uses; only with ``num_groups``."""
    scaling_factor: PositiveFloat | None = None
    """Factor on the weights of the chosen experts; null: 1."""
    balance: Literal["aux_loss", "seq_aux_loss", "none", "sinkhorn"] = "aux_loss"
    """Load-balancing loss: over a batch, over each sequence, or none. ``sinkhorn`` has
    none: its algorithm assigns each token of a rank to one expert, so that all get
    about as many (as in BASE layers), and weighs by a sigmoid."""
    probs_on_input: bool = False
    """The router's weight scales what enters an expert, not what leaves it; only with
    one expert per token."""


class Mla(Frozen):
    """Multi-head latent attention: queries, keys and values are projected through
    narrow latents (DeepSeek)."""

    q_lora_rank: Size | None = None
    """Width of the queries' latent; null: queries are projected at once."""
    kv_lora_rank: Size
    """Width of the latent of keys and values."""
    qk_head_dim: Size
    """Width of a query or key head without its rotated part."""
    qk_pos_emb_head_dim: Size
    """Width of the rotated part; the keys' is shared by all heads."""
    v_head_dim: Size
    """Width of a value head."""

    @property
    def qk_width(self) -> int:
        """Width of a whole query or key head."""
        return self.qk_head_dim + self.qk_pos_emb_head_dim


class Mamba(Frozen):
    """Layers of several kinds, Mamba-2 among them, in the order of ``pattern``."""

    pattern: str = Field(pattern="^[M*E-]+$")
    """One letter a layer, as Megatron-LM has them: M Mamba-2, * attention, - MLP, E
    experts. A model of fewer layers has the first ones."""
    num_heads: Size
    """Heads of a Mamba-2 layer."""
    head_dim: Size
    """Width of a head."""
    state_dim: Size
    """Width of the state."""
    num_groups: Size
    """Groups of heads that share the projections into and out of the state."""
    mtp_pattern: str = Field("*E", pattern="^[M*E-]+$")
    """Layers of a multi-token prediction."""

    @property
    def inner(self) -> int:
        """Width of all heads together."""
        return self.num_heads * self.head_dim

    @property
    def convolved(self) -> int:
        """Channels of the convolution: those of all heads, and of both projections of
        the state."""
        return self.inner + 2 * self.num_groups * self.state_dim


class Window(Frozen):
    """Sliding-window attention: a token is scored against the last ``size`` positions
    alone."""

    size: Size
    """Positions, the token's own among them."""
    full_every: Size | None = None
    """Each n-th layer is scored against all positions; null: none is."""


class RopeScaling(Frozen):
    """Method by which rotary positions reach beyond the length that the model began
    with."""

    kind: Literal["llama3", "yarn"]
    factor: PositiveFloat
    """Factor by which positions reach further."""
    original_positions: Size
    """The length before."""
