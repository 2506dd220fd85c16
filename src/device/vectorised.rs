//! `vectorised!`: loops compiled for several instruction sets.

/// Compiles a function three times, for the baseline, AVX2 and AVX-512, and selects a version at
/// run time.
///
/// Rust neither fuses nor reorders floating-point operations, so all versions give the same bits.
/// Generic parameters are written in square brackets.
macro_rules! vectorised {
    (
        $(#[$doc:meta])*
        $vis:vis fn $name:ident $([$($generics:tt)*])? ($($arg:ident: $type:ty),* $(,)?)
        $(-> $out:ty)? $body:block
    ) => {
        $(#[$doc])*
        $vis fn $name $(<$($generics)*>)? ($($arg: $type),*) $(-> $out)? {
            #[inline(always)]
            fn baseline $(<$($generics)*>)? ($($arg: $type),*) $(-> $out)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn avx2 $(<$($generics)*>)? ($($arg: $type),*) $(-> $out)? {
                    baseline($($arg),*)
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn avx512 $(<$($generics)*>)? ($($arg: $type),*) $(-> $out)? {
                    baseline($($arg),*)
                }
                if std::is_x86_feature_detected!("avx512f")
                    && std::is_x86_feature_detected!("avx512bw")
                    && std::is_x86_feature_detected!("avx512dq")
                    && std::is_x86_feature_detected!("avx512vl")
                {
                    // SAFETY: the processor supports these AVX-512 features, as just checked.
                    return unsafe { avx512($($arg),*) };
                }
                if std::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor supports AVX2, as just checked.
                    return unsafe { avx2($($arg),*) };
                }
            }
            baseline($($arg),*)
        }
    };
}
pub(crate) use vectorised;
