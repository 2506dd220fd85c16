//! The name of the program in messages, its version, and the C library that it runs with.

use std::borrow::Cow;

/// Name of the program in a clone of the repository: an alias of cargo, which builds and runs it.
pub const CARGO_ALIAS: &str = "cargo lab";

/// Name of an installed program.
pub const INSTALLED: &str = "epsilab";

/// Command that installs the program from a clone, without compiling Burn again.
pub const INSTALL: &str = "cargo install --path kernel --locked --profile dev";

/// Environment variable with the name of the program. The program sets it for itself and for the
/// processes that run cells.
pub const NAME_ENV_VAR: &str = "EPSILAB_PROGRAM";

/// Returns the name by which users call the program; that of a clone for other programs that use
/// the library.
pub fn name() -> Cow<'static, str> {
    match std::env::var(NAME_ENV_VAR) {
        Ok(name) if !name.is_empty() => name.into(),
        _ => CARGO_ALIAS.into(),
    }
}

/// Returns a command as users type it: `cargo lab doctor` or `epsilab doctor`.
pub fn command(arguments: &str) -> String {
    format!("{} {arguments}", name())
}

/// Returns how to install the program, as a sentence with a space behind it. Empty for the program
/// of a clone, which cargo builds where it is called.
pub fn how_to_get() -> String {
    if name() == INSTALLED {
        format!("In a clone of Epsilab, {INSTALL} installs the program {INSTALLED}. ")
    } else {
        String::new()
    }
}

/// The version of the numerics. It is raised whenever the same settings, seed and data give other
/// bits: by another order of summation, another use of random bits, another way to round.
pub(crate) const NUMERICS: u32 = 1;

/// Returns the version of the lab with that of its numerics. A run that is begun by one version and
/// continues with another has steps of the same noise that are rounded differently, so checkpoints
/// and tickets compare it.
pub(crate) fn numerics() -> String {
    format!("{}, numerics {NUMERICS}", env!("CARGO_PKG_VERSION"))
}

/// The version of Burn that the library is compiled with.
const BURN: &str = "0.22.1";

/// Returns the versions that runs are trained with: `Epsilab 0.1.0, Burn 0.22.1, linux x86_64,
/// glibc 2.36`.
pub fn software_versions() -> String {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let libc = glibc().map_or(String::new(), |version| format!(", glibc {version}"));
    format!("Epsilab {}, Burn {BURN}, {os} {arch}{libc}", env!("CARGO_PKG_VERSION"))
}

/// Returns the version of the GNU C library of this machine, such as `2.36`; `None` on other
/// systems.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_burn_is_that_of_the_manifest() {
        let manifest = include_str!("../Cargo.toml");
        assert!(manifest.contains(&format!("version = \"={BURN}\"")));
        assert!(software_versions().contains(BURN) && software_versions().starts_with("Epsilab "));
    }

    #[test]
    fn commands_begin_with_the_name_of_the_program() {
        // The tests of other modules run at the same time, so the variable stays as it is.
        assert_eq!(command("doctor"), format!("{} doctor", name()));
        match std::env::var(NAME_ENV_VAR) {
            Ok(given) if !given.is_empty() => assert_eq!(name(), given),
            _ => assert_eq!(command("runs remove ID"), "cargo lab runs remove ID"),
        }
    }
}
