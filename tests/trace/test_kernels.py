"""Classes of kernels by name: names as NVIDIA's libraries, PyTorch and training frameworks give them."""

import pytest

from benchrun.trace.kernels import CLASSES, pattern_of, patterns

NAMES = {
    "communication": [
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)",
        "ncclSymkDevKernel_ReduceScatter_LDMC_sum_bf16(ncclSymDevArgs)",
        "void userbuffers_fp16_sum_inplace_gpu_rr_rs<8>(int, int, int)",
        "kuserbuffers_pushrecv(int, int, int)",
        "void deep_ep::internode::dispatch<false, 8, false>(int4*, float*)",
        "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
        "multimem_all_reduce_kernel",
        "void hybrid_ep::dispatch_kernel<hybrid_ep::inter_node_group, 8>(int)",
        "void tensorrt_llm::kernels::moe_comm::moeAllToAllKernel(int)",
        "_all_gather_kernel_nvls",
        "void c10d::symmetric_memory::barrier_kernel(unsigned int**, int)",
        "ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)",
        "void nccl_ep::dispatch<8>(int)",
        "barrier_on_stream_kernel_threadgroup",
        "void pplx::a2a_dispatch_send_kernel<8>(int)",
        "void flashinfer::moeA2ADispatchKernel<int>(int)",
        "allToAllV(void*, void*, long*)",
        "allreduce_two_shot_multimem_intra_node_kernel",
        "void quickreduce::allreduce_prototype_twoshot<int>(int)",
        "void lamportReduceKernel<__nv_bfloat16>(int)",
    ],
    "matmul": [
        "nvjet_sm90_tst_128x256_64x4_2x1_v_badd_coopA_NTN",
        "nvjet_sm100_tst_256x256_64x4_2x1_2cta_h_bz_TNT",
        "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x32",
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_nn_align8>()",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int>>>()",
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn",
        "void splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(cublasSplitKParams<float>)",
        "void deep_gemm::fp8_gemm_kernel<4096, 7168, 128>()",
        "Cijk_Ailk_Bljk_BBS_BH_MT256x128x32_MI16x16x16x1",
        "triton_tem_fused_mm_1",
        "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_sm100f",
        "matmul_kernel_persistent",
        "fused_moe_kernel",
        "void marlin::Marlin<__nv_bfloat16, 256>(int)",
        "kernel_cutlass_kernel___main__PersistentDenseGemmKernel_object_at__TiledMMA_ThrLayoutVMNK11110000",
        "void deep_gemm::sm100_fp8_gemm_1d1d_impl<0>(int)",
        "gemm_fusion_dot_4",
        "_w8a8_triton_block_scaled_mm",
        "_sgmv_expand_kernel",
        "void wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int, int, int)",
        "void wgrad2d_grouped_direct_kernel<float>(int)",
        "void fft2d_r2c_32x32<float, false, 0u, false>(float2*)",
        "cask_cudnn::computeWgradBOffsetsKernel(cask_cudnn::ComputeWgradBOffsetsParams)",
        "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float>(int)",
    ],
    "attention": [
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x4x1",
        "cudnn_generated_fort_native_sdpa_sm100_flash_fprop_f16_knob_7_128x128x128",
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4>>()",
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int>>>()",
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>)",
        "void cudnn::fusion::compute_dot_do_o_specialized<true, 128>(void const*)",
        "void cudnn::fusion::convert_dq_to_16bits<true>(void const*)",
        "void flashinfer::BatchPrefillWithPagedKVCacheKernel<int>()",
        "attn_fwd",
        "_fwd_grouped_kernel_stage1",
        "_bwd_kernel_dk_dv",
        "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__tensor000o1",
        "void vllm::merge_attn_states_kernel<float>(float*)",
        "void flashinfer::PersistentVariableLengthMergeStatesKernel<int>(int)",
        "void sm90_fp8_mqa_logits<64>(int)",
        "void transformer_engine::context_parallel::thd_out_correction_kernel<float>(float*)",
        "void masked_mha<float>(int)",
        "sage_fwd",
    ],
    "memory_bound": [
        "triton_poi_fused_add_cat_mul_rsub_sigmoid_silu_split_0",
        "triton_red_fused_all_reduce_native_layer_norm_2",
        "void transformer_engine::normalization::rmsnorm_bwd_tuned_kernel<int>()",
        "void transformer_engine::fused_rope_forward_kernel<__nv_bfloat16>(__nv_bfloat16 const*)",
        "void transformer_engine::detail::cast_transpose_fused_kernel<true, false>(int)",
        "_chunk_scan_fwd_kernel",
        "_bmm_chunk_fwd_kernel",
        "void rht_gemm_device<4>(int)",
        "void transformer_engine::mxfp8_kernel::quantize_mxfp8_kernel<true>(int)",
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>()",
        "void at::native::vectorized_elementwise_kernel<8, at::native::FillFunctor<c10::BFloat16>>()",
        "void scaled_upper_triang_masked_softmax_warp_forward<__half, __half, float, 11>(int)",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<int, unsigned int, 2, 128, 1>()",
        "void cross_entropy_kernel<float>(float*)",
        "_permute_kernel",
        "_row_id_map_pass_3_kernel",
        "transpose_optimized_kernel(__nv_fp8_e4m3 const*, float const*, __nv_fp8_e4m3*, unsigned long, unsigned long)",
        "void transformer_engine::normalization::ln_fwd_tuned_kernel<int>()",
        "void transformer_engine::unary_kernel<16, true, float, transformer_engine::Empty>()",
        "triton__0d1d2d3d",
        "triton_unk_fused_add_0",
        "triton_split_scan_fused_cumsum_1",
        "loop_add_fusion_12",
        "input_reduce_fusion_3",
        "input_concatenate_fusion",
        "fusion_123",
        "wrapped_convert",
        "RepeatBufferKernel",
        "nvfuser_inner_persistent_f0_c1_r0_g0",
        "chunk_gated_delta_rule_fwd_kernel_h_blockdim64",
        "chunk_fwd_kernel_o",
        "void per_token_group_quant_8bit_kernel<__nv_bfloat16>(int)",
        "void tensorrt_llm::kernels::quantize_with_block_size<2, __nv_bfloat16, 32, true>(int)",
        "void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>(float*)",
        "void cuComputeGradInput<float>(float*)",
        "_sum_bitmatrix_rows",
        "count_and_sort_expert_tokens_kernel",
        "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(int)",
        "void cudnn::ops::scalePackedTensor_kernel<float, float>(long, float*, float)",
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char>(int)",
        "void flashinfer::sampling::TopPSamplingFromProbKernel<int>(int)",
        "void compute_cuda_kernel<long>(long*, long*, long*, long, long)",
    ],
}
CASES = [(name, kernel_class) for kernel_class, names in NAMES.items() for name in names]


@pytest.mark.parametrize(("name", "kernel_class"), CASES)
def test_a_name_has_its_class(name: str, kernel_class: str) -> None:
    pattern = pattern_of(name)
    assert pattern is not None
    assert pattern.kernel_class == kernel_class


def test_a_kernel_that_nothing_describes_has_no_class() -> None:
    assert pattern_of("my_own_kernel(int)") is None


def test_the_table_has_every_class() -> None:
    assert {pattern.kernel_class for pattern in patterns()} == set(CLASSES)
