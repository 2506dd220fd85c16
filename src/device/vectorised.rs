//! Loops for every processor, in one text.

/// Compiles a loop three times, for every machine and for those with AVX2 and AVX-512, and chooses
/// when called. Rust never fuses or reorders floating-point operations, so all give the same bits.
macro_rules! vectorised {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty)? $body:block) => {
        $(#[$doc])*
        $vis fn $name($($arg: $type),*) $(-> $out)? {
            #[inline(always)]
            fn plain($($arg: $type),*) $(-> $out)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide($($arg: $type),*) $(-> $out)? {
                    plain($($arg),*)
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn widest($($arg: $type),*) $(-> $out)? {
                    plain($($arg),*)
                }
                if std::is_x86_feature_detected!("avx512f")
                    && std::is_x86_feature_detected!("avx512bw")
                    && std::is_x86_feature_detected!("avx512dq")
                    && std::is_x86_feature_detected!("avx512vl")
                {
                    // SAFETY: the processor has these parts of AVX-512, as it just said.
                    return unsafe { widest($($arg),*) };
                }
                if std::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has AVX2, as it just said.
                    return unsafe { wide($($arg),*) };
                }
            }
            plain($($arg),*)
        }
    };
}
pub(crate) use vectorised;
