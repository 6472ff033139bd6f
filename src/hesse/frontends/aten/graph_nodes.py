"""What autograd's nodes compute: for each kind of node the ATen operation whose derivative it is.

A node keeps what its derivative needs: edges to the nodes of the operands, and `_saved_*` values. The
arguments of the operation are put together from these. What is not kept has no influence on the derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

SELF = """
_conj _fft_c2c _fft_r2c _neg_view _safe_softmax _upsample_bicubic2d_aa _upsample_bilinear2d_aa
_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d abs acos acosh
adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d alias amax amin aminmax
angle asin asinh atan atanh avg_pool2d avg_pool3d ceil celu channel_shuffle cholesky cholesky_inverse
clamp_max clamp_min clone col2im conj_physical constant_pad_nd cos cosh cumprod cumsum deg2rad diag_embed
diagonal digamma elu erf erfc erfinv exp exp2 expand expm1 fill.Scalar flip floor frac gather gelu glu
hardshrink hardsigmoid hardswish hardtanh i0 im2col index.Tensor index_fill.int_Scalar index_select
leaky_relu lgamma linalg_matrix_exp linalg_pinv.atol_rtol_tensor linalg_vector_norm log log10 log1p log2
log_sigmoid log_softmax.int logcumsumexp logit logsumexp masked_fill.Scalar max_pool2d max_unpool2d mean
median mish multi_margin_loss multilabel_margin_loss mvlgamma nan_to_num nanmedian nansum neg nll_loss
nll_loss2d norm.Scalar pdist permute pixel_shuffle pixel_unshuffle polygamma pow.Tensor_Scalar prod rad2deg
reciprocal reflection_pad1d reflection_pad2d reflection_pad3d relu renorm repeat replication_pad1d
replication_pad2d replication_pad3d roll rot90 round rsqrt select.int sgn sigmoid sign silu sin sinc sinh
slice.Tensor soft_margin_loss softmax.int softplus softshrink special_entr special_erfcx special_i0e
special_i1 special_i1e special_log_ndtr special_ndtri split.Tensor split_with_sizes sqrt squeeze
std.correction std_mean.correction sum t take tan tanh threshold trace transpose.int tril triu trunc
unbind.int unfold unsqueeze upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d
upsample_nearest2d upsample_nearest3d upsample_trilinear3d view_as_complex view_as_real var.correction
var_mean.correction
"""
"""Operations that are differentiated by the argument `self`, with nodes of that name (`AbsBackward0`)."""

OTHERS = """
_ctc_loss(log_probs) affine_grid_generator(theta) _weight_norm_interface(v,g)
igamma(self,other) igammac(self,other) index_reduce(self,source) scatter_reduce.two(self,src)
_euclidean_dist(x1,x2) _prelu_kernel(self,weight) _trilinear(i1,i2,i3) add.Tensor(self,other)
addbmm(self,batch1,batch2) addcdiv(self,tensor1,tensor2) addcmul(self,tensor1,tensor2)
addmm(self,mat1,mat2) addmv(self,mat,vec) addr(self,vec1,vec2)
atan2(self,other) baddbmm(self,batch1,batch2) binary_cross_entropy(self,target)
binary_cross_entropy_with_logits(self,target) bmm(self,mat2) cdist(x1,x2) cholesky_solve(self,input2)
clamp.Tensor(self,min,max) complex(real,imag) conv_tbc(self,weight,bias)
convolution(input,weight,bias)
diagonal_scatter(self,src) dist(self,other) div.Tensor(self,other) dot(self,tensor) embedding(weight)
fmax(self,other) fmin(self,other) grid_sampler_2d(input,grid) grid_sampler_3d(input,grid)
huber_loss(self,target) index_add(self,source) index_copy(self,source)
index_put(self,values) lerp.Scalar(self,end) linalg_cross(self,other)
linalg_det(A) linalg_householder_product(input,tau) linalg_qr(A)
linalg_slogdet(A) linalg_solve_triangular(self,B)
linalg_svd(A) linear(input,weight,bias) logaddexp(self,other) logaddexp2(self,other) matmul(self,other)
maximum(self,other) minimum(self,other) mm(self,mat2) mse_loss(self,target) mul.Tensor(self,other)
mv(self,vec) ormqr(self,input2,input3) put(self,source) rsub.Tensor(self,other) scatter.src(self,src)
scatter_add(self,src)
select_scatter(self,src) slice_scatter(self,src) smooth_l1_loss(self,target)
special_xlog1py(self,other) special_zeta(self,other) stack(tensors)
sub.Tensor(self,other) triangular_solve(self,A) vdot(self,other) where.self(self,other)
xlogy.Tensor(self,other)
_log_softmax_backward_data(grad_output,output) _prelu_kernel_backward(grad_output,self,weight)
_softmax_backward_data(grad_output,output) binary_cross_entropy_backward(grad_output,self,target)
diagonal_backward(grad_output) elu_backward(grad_output,self_or_result) gelu_backward(grad_output,self)
glu_backward(grad_output,self) hardswish_backward(grad_output,self) hardtanh_backward(grad_output,self)
huber_loss_backward(grad_output,self,target) leaky_relu_backward(grad_output,self)
log_sigmoid_backward(grad_output,self) mse_loss_backward(grad_output,self,target)
select_backward(grad_output) sigmoid_backward(grad_output,output) slice_backward(grad_output)
smooth_l1_loss_backward(grad_output,self,target) softplus_backward(grad_output,self)
tanh_backward(grad_output,output) threshold_backward(grad_output,self) unfold_backward(grad_in)
"""
"""Operations that are differentiated by other arguments, with nodes of their own name."""

NAMED = {
    "AddBackward1": "add.Scalar(self)",
    "CeluBackward1": "celu(self)",
    "ClampBackward1": "clamp(self)",
    "ClampMaxBackward1": "clamp_max.Tensor(self,max)",
    "ClampMinBackward1": "clamp_min.Tensor(self,min)",
    "DivBackward1": "div.Scalar(self)",
    "DivBackward2": "div.Tensor_mode(self,other)",
    "DivBackward3": "div.Scalar_mode(self)",
    "EluBackward1": "elu(self)",
    "FillBackward1": "fill.Tensor(self,value)",
    "FillBackward2": "fill.Scalar(self)",
    "FillBackward3": "fill.Tensor(self,value)",
    "FmodBackward1": "fmod.Tensor(self,other)",
    "IndexFillBackward1": "index_fill.int_Tensor(self,value)",
    "LeakyReluBackward1": "leaky_relu(self)",
    "LerpBackward1": "lerp.Tensor(self,end,weight)",
    "LinalgCholeskyExBackward0": "linalg_cholesky(self)",
    "LinalgInvExBackward0": "linalg_inv(A)",
    "LinalgSolveExBackward0": "linalg_solve(A,B)",
    "MaskedFillBackward1": "masked_fill.Tensor(self,value)",
    "MaxBackward1": "max(self)",
    "MaxPool2DWithIndicesBackward0": "max_pool2d(self)",
    "MaxPool3DWithIndicesBackward0": "max_pool3d(self)",
    "MeanBackward1": "mean.dim(self)",
    "MinBackward1": "min(self)",
    "MulBackward1": "mul.Scalar(self)",
    "NarrowCopyBackward0": "narrow(self)",
    "NativeBatchNormBackward0": "batch_norm(input,weight,bias)",
    "NativeBatchNormLegitBackward0": "batch_norm(input,weight,bias)",
    "NativeBatchNormLegitBackward1": "batch_norm(input,weight,bias)",
    "NativeBatchNormLegitNoTrainingBackward0": "batch_norm(input,weight,bias)",
    "NativeGroupNormBackward0": "group_norm(input,weight,bias)",
    "NormBackward1": "norm.ScalarOpt_dim(self)",
    "NormBackward2": "norm.ScalarOpt_dtype(self)",
    "NormBackward3": "norm.ScalarOpt_dim_dtype(self)",
    "PowBackward1": "pow.Tensor_Tensor(self,exponent)",
    "PowBackward2": "pow.Scalar(exponent)",
    "ProdBackward1": "prod.dim_int(self)",
    "RoundBackward1": "round.decimals(self)",
    "RemainderBackward1": "remainder.Tensor(self,other)",
    "ReshapeAliasBackward0": "reshape(self)",
    "ReshapeCopyBackward0": "reshape(self)",
    "RsubBackward1": "rsub.Scalar(self)",
    "ScaledDotProductFlashAttentionBackward0": "scaled_dot_product_attention(query,key,value)",
    "ScaledDotProductFlashAttentionForCpuBackward0": "scaled_dot_product_attention(query,key,value)",
    "ScatterBackward1": "scatter.value(self)",
    "SpecialZetaBackward1": "special_zeta.self_scalar(other)",
    "SpecialXlog1PyBackward1": "special_xlog1py.self_scalar(other)",
    "SpecialXlog1PyBackward2": "special_xlog1py.other_scalar(self)",
    "SqueezeBackward1": "squeeze.dim(self)",
    "SqueezeBackward2": "squeeze.dims(self)",
    "SqueezeBackward3": "squeeze(self)",
    "SqueezeBackward4": "squeeze.dim(self)",
    "SqueezeBackward5": "squeeze.dims(self)",
    "SubBackward1": "sub.Scalar(self)",
    "SumBackward1": "sum.dim_IntList(self)",
    "TBackward1": "t(self)",
    "ThresholdBackward1": "threshold(self)",
    "ToCopyBackward0": "clone(self)",
    "TransposeBackward1": "transpose.int(self)",
    "UnsafeIndexBackward0": "index.Tensor(self)",
    "UnsafeIndexPutBackward0": "index_put(self,values)",
    "UnsafeSplitBackward0": "split.Tensor(self)",
    "UnsafeSplitWithSizesBackward0": "split_with_sizes(self)",
    "UnsafeViewBackward0": "reshape(self)",
    "UnsqueezeBackward1": "unsqueeze(self)",
    "ViewBackward0": "reshape(self)",
    "XlogyBackward1": "xlogy.Scalar_Self(other)",
    "XlogyBackward2": "xlogy.Scalar_Other(self)",
    "ZeroBackward0": "zeros_like(self)",
}
"""Nodes with other names, such as those of further overloads."""

CHOSEN = frozenset(
    f"{name}Backward{k}"
    for name, k in [
        ("Cummax", 0), ("Cummin", 0), ("Kthvalue", 0), ("Max", 0), ("Median", 1), ("Min", 0), ("Mode", 0),
        ("Nanmedian", 1), ("Sort", 0), ("Sort", 1), ("Topk", 0),
    ]
)  # fmt: skip
"""Nodes of operations that choose entries along an axis, and keep which ones."""

FREE: dict[str, Any] = {
    **dict.fromkeys(
        ("atol", "attn_mask", "compute_mode", "device", "driver", "dtype", "layout", "memory_format")
    ),
    **dict.fromkeys(("pin_memory", "rtol", "running_mean", "running_var")),
    **dict.fromkeys(("check_errors", "cudnn_enabled", "hermitian", "implicit", "training"), False),
    "enable_gqa": True,  # PyTorch has checked the numbers of heads
    "input_dtype": torch.float64,
    "self_is_result": False,
    "dropout_p": 0.0,
    "momentum": 0.0,
    "unroll_dim": 1,
}
"""Arguments that are not kept and do not change the result, or that nearly nobody gives."""

RENAMED = {"num_groups": "group"}
"""Arguments that are kept under another name."""

INVERSES: dict[str, Callable[[Any], Tensor]] = {
    "CholeskyBackward0": lambda node: _cholesky_operand(node._saved_result, node._saved_upper),
    "Exp2Backward0": lambda node: node._saved_result.log2(),
    "ExpBackward0": lambda node: node._saved_result.log(),
    "Expm1Backward0": lambda node: node._saved_result.log1p(),
    "LinalgCholeskyExBackward0": lambda node: _cholesky_operand(node._saved_L, node._saved_upper),
    "LinalgInvExBackward0": lambda node: torch.linalg.inv(node._saved_inverse),
    "ReciprocalBackward0": lambda node: node._saved_result.reciprocal(),
    "RsqrtBackward0": lambda node: node._saved_result.square().reciprocal(),
    "SigmoidBackward0": lambda node: node._saved_result.logit(),
    "SqrtBackward0": lambda node: node._saved_result.square(),
    "TanhBackward0": lambda node: node._saved_result.atanh(),
}
"""Where the result is kept instead of the operand: the operand."""

PREIMAGES: dict[str, Callable[[Any], Tensor]] = {
    "LogSoftmaxBackward0": lambda node: node._saved_result,
    "ReluBackward0": lambda node: torch.where(node._saved_result > 0, node._saved_result, -1.0),
    "SafeSoftmaxBackward0": lambda node: node._saved_result.log(),
    "SoftmaxBackward0": lambda node: node._saved_result.log(),
    "TanBackward0": lambda node: node._saved_result.atan(),
}
"""Where the result is kept and many operands have it: one at which the derivatives are the same."""


KEPT_RESULTS = {
    **dict.fromkeys([*INVERSES, *PREIMAGES], "result"),
    "CholeskyBackward0": "result",
    "LinalgCholeskyExBackward0": "L",
    "LinalgInvExBackward0": "inverse",
}
"""Nodes that keep a result and not the operand, and its name."""


def _cholesky_operand(factor: Tensor, is_upper: bool) -> Tensor:
    return factor.mT @ factor if is_upper else factor @ factor.mT


class Row(NamedTuple):
    """An operation and the arguments that it is differentiated by, in the order of the edges of its node."""

    operation: Any
    operands: tuple[str, ...]


def _row(text: str) -> Row:
    """A row as it is written in the tables."""
    name, _, operands = text.removesuffix(")").partition("(")
    name, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, name)
    return Row(getattr(packet, overload or "default"), tuple(operands.split(",")))


def _node_name(text: str) -> str:
    """The node of the first overload of an operation: `LogSoftmaxBackward0`."""
    name = text.partition("(")[0].partition(".")[0]
    return "".join(part.title() for part in name.strip("_").split("_")) + "Backward0"


ROWS: dict[str, Row] = {
    **{_node_name(text): _row(f"{text}(self)") for text in SELF.split()},
    **{_node_name(text): _row(text) for text in OTHERS.split()},
    **{name: _row(text) for name, text in NAMED.items()},
}


def node_name(node: Any) -> str:
    """The kind of a node: the name of its class, without what says that a view was copied."""
    name: str = node.name()
    return name.rpartition("::")[2].removesuffix("_copy")
