"""Matrix products: blocked GEMM, packing, and float32 products on AMX in three bfloat16 parts."""
