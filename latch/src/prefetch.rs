//! Asking for a cache line ahead of its use. A hint: it never faults, whatever the address.

/// Asks for the line that holds `at`, for reading, into all cache levels. Nothing where the processor is
/// neither x86_64 nor aarch64.
#[inline(always)]
pub fn prefetch_line<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch neither reads nor faults; SSE is part of x86_64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>()) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        // SAFETY: `prfm` neither reads, writes nor faults, and touches no stack and no flags.
        unsafe {
            core::arch::asm!(
                "prfm pldl1keep, [{at}]",
                at = in(reg) at,
                options(readonly, nostack, preserves_flags)
            );
        }
    }
    let _ = at;
}
