//! The name of the program in messages, its version, and the C library that it runs with.

use std::borrow::Cow;

/// How messages name the program: the alias of cargo in a clone of the repository.
const IN_A_CLONE: &str = "cargo lab";

/// Environment variable with the name of a program that was installed without a clone. The program
/// sets it for itself and for the processes that run cells.
pub const VARIABLE: &str = "EPSILAB_PROGRAM";

/// Name of an installed program.
pub const INSTALLED: &str = "epsilab";

/// How users call the program.
pub fn name() -> Cow<'static, str> {
    match std::env::var(VARIABLE) {
        Ok(name) if !name.is_empty() => name.into(),
        _ => IN_A_CLONE.into(),
    }
}

/// The version of Burn that the library is compiled with.
const BURN: &str = "0.22.1";

/// What runs are trained with: `Epsilab 0.1.0, Burn 0.22.1, linux x86_64, glibc 2.36`.
pub fn software() -> String {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let libc = glibc().map_or(String::new(), |version| format!(", glibc {version}"));
    format!("Epsilab {}, Burn {BURN}, {os} {arch}{libc}", env!("CARGO_PKG_VERSION"))
}

/// Version of the GNU C library of this machine, such as `2.36`; `None` on other systems.
pub fn glibc() -> Option<&'static str> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: returns a static text.
        let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
        version.to_str().ok()
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    None
}

/// The text with the commands in it as users type them.
pub fn as_called(text: &str) -> Cow<'_, str> {
    replaced(text, &name())
}

fn replaced<'t>(text: &'t str, name: &str) -> Cow<'t, str> {
    match name != IN_A_CLONE && text.contains(IN_A_CLONE) {
        true => text.replace(IN_A_CLONE, name).into(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_burn_is_that_of_the_manifest() {
        let manifest = include_str!("../Cargo.toml");
        assert!(manifest.contains(&format!("version = \"={BURN}\"")));
        assert!(software().contains(BURN) && software().starts_with("Epsilab "));
    }

    #[test]
    fn commands_in_a_text_have_the_name_of_the_program() {
        let text = "see `cargo lab doctor`, or run `cargo lab`";
        assert_eq!(replaced(text, IN_A_CLONE), text);
        assert_eq!(replaced(text, INSTALLED), "see `epsilab doctor`, or run `epsilab`");
    }
}
