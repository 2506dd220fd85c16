//! [`alias`]: lets the loader find a library under another name.
//!
//! CubeCL opens NVRTC as `libnvrtc.so`. The Python packages have it as `libnvrtc.so.13`, in a
//! folder that the loader does not search. So we load a library without code that is named
//! `libnvrtc.so` and depends on the one that was found, by its path. When CubeCL asks for
//! `libnvrtc.so`, the loader returns the library of that name that is loaded already, and looks for
//! its functions in what it depends on.

use std::ffi::CStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::library::Library;

/// Loads a library named `name` whose functions are those of the library at `target`. `None` if the
/// system can't do it.
pub(super) fn alias(name: &str, target: &Path) -> Option<Library> {
    let mut file = in_memory(c"epsilab alias")?;
    file.write_all(&empty_library(name.as_bytes(), target.as_os_str().as_bytes())).ok()?;
    let library = Library::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    // The loader knows the library by this path. If the file were closed, another could have the
    // same number, and the loader would take that for this library.
    std::mem::forget(file);
    Some(library)
}

/// Creates a file in memory.
fn in_memory(name: &CStr) -> Option<File> {
    // SAFETY: the name is a C string; the new descriptor belongs to nothing else.
    unsafe {
        let descriptor = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        (descriptor >= 0).then(|| File::from_raw_fd(descriptor))
    }
}

/// Sizes of the structures of an ELF file with 64-bit addresses, in bytes.
const HEADER: u64 = 64;
const SEGMENT: u64 = 56;
const DYNAMIC: u64 = 16;
const SYMBOL: u64 = 24;

/// Returns the bytes of a dynamic library (ELF, 64 bits, little-endian) of this name that has no
/// functions of its own and needs the library `needed`.
///
/// Layout: header, three segments, dynamic section, one null symbol, hash table, names. All of it
/// is one segment at address 0, which is writable because the loader relocates the dynamic section.
fn empty_library(name: &[u8], needed: &[u8]) -> Vec<u8> {
    let names = [b"\0", name, b"\0", needed, b"\0"].concat();
    let (name_at, needed_at) = (1, 2 + name.len() as u64);
    let dynamic_at = HEADER + 3 * SEGMENT;
    let symbols_at = dynamic_at + 8 * DYNAMIC;
    let hash_at = symbols_at + SYMBOL;
    let names_at = hash_at + 16;
    let size = names_at + names.len() as u64;
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // Type (dynamic library), machine.
    [3, machine].iter().for_each(|half| file.extend(half.to_le_bytes()));
    // Version; entry, segments, sections; flags.
    file.extend(1u32.to_le_bytes());
    [0, HEADER, 0u64].iter().for_each(|word| file.extend(word.to_le_bytes()));
    file.extend(0u32.to_le_bytes());
    // Size of the header, size and number of segments; of sections; section with names.
    let sizes = [HEADER as u16, SEGMENT as u16, 3, 64, 0, 0];
    sizes.iter().for_each(|half| file.extend(half.to_le_bytes()));

    let mut segment = |kind: u32, flags: u32, at: u64, size: u64, align: u64| {
        [kind, flags].iter().for_each(|word| file.extend(word.to_le_bytes()));
        [at, at, at, size, size, align].iter().for_each(|word| file.extend(word.to_le_bytes()));
    };
    const READ_WRITE: u32 = 6;
    segment(1, READ_WRITE, 0, size, 0x1000); // loaded
    segment(2, READ_WRITE, dynamic_at, 8 * DYNAMIC, 8); // dynamic section
    segment(0x6474_e551, READ_WRITE, 0, 0, 16); // the stack is not executable

    let dynamic: [(u64, u64); 8] = [
        (14, name_at),  // SONAME
        (1, needed_at), // NEEDED
        (4, hash_at),
        (5, names_at),
        (6, symbols_at),
        (10, names.len() as u64),
        (11, SYMBOL),
        (0, 0),
    ];
    dynamic.iter().flat_map(|(tag, value)| [tag, value]).for_each(|word| {
        file.extend(word.to_le_bytes());
    });
    file.extend([0; SYMBOL as usize]);
    // One bucket and one symbol, both empty.
    [1u32, 1, 0, 0].iter().for_each(|word| file.extend(word.to_le_bytes()));
    file.extend(names);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_finds_a_library_under_its_new_name() {
        type Cosine = unsafe extern "C" fn(f64) -> f64;
        let target = Library::open("libm.so.6").expect("the C library has it");
        let path = target.path(c"cos").expect("a file");
        let name = "libepsilab-test-of-aliases.so";
        assert!(Library::open(name).is_none(), "no such library");
        let _kept = alias(name, &path).expect("an alias");
        let found = Library::open(name).expect("by its new name");
        // SAFETY: the type of `cos`.
        let cosine: Cosine = unsafe { found.function(c"cos") }.expect("a function of the target");
        // SAFETY: a pure function.
        assert_eq!(unsafe { cosine(0.0) }, 1.0);
        assert!(alias("libnone.so", Path::new("/nowhere/libnone.so.1")).is_none());
    }
}
