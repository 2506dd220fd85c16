//! Peak memory of this process.

use std::fs;

/// Resident memory in MiB; `None` where the system does not report it.
pub fn resident() -> Option<f64> {
    status("VmRSS:")
}

/// Peak since the start or the last call of [`settle`], in MiB.
pub fn peak() -> Option<f64> {
    status("VmHWM:")
}

/// Returns unused memory to the system and resets the peak.
pub fn settle() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: asks the allocator to return free pages; no memory in use is touched.
    unsafe {
        libc::malloc_trim(0);
    }
    // On Linux, 5 resets the peak. On other systems the peak includes the preparation.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

fn status(field: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_touched_and_given_back_is_still_in_the_peak() {
        let before = resident().unwrap();
        let touched = vec![1u8; 64 << 20];
        assert!(touched.iter().step_by(4096).map(|&x| usize::from(x)).sum::<usize>() > 0);
        drop(touched);
        let more = peak().unwrap() - before;
        // 64 MiB, minus memory that other tests of this process have returned.
        assert!(more > 32.0, "{more} MiB");
        assert!(resident().unwrap() <= peak().unwrap() + 1.0);
    }
}
