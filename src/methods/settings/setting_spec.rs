//! The table of settings: each is declared once, and is a builder method, an option of commands and
//! a key of files.

use crate::data::Augment;
use crate::mask::DroppedStatePolicy;
use crate::methods::{CheckpointInterval, Method, MethodDescriptor, Optimizer};
use crate::nn::Precision;
use crate::optim::{Average, LearningRate, WarmUp};
use crate::privacy::{ClipSchedule, Delta, Epsilon, NeighbouringRelation, NoiseSchedule};
use crate::{Error, ErrorKind, Result};

/// A setting of training methods.
#[derive(Clone, Copy, Debug)]
pub struct SettingSpec {
    /// Name of the builder method, and key in files.
    pub id: &'static str,
    /// Other names of the setting.
    pub aliases: &'static [&'static str],
    /// Placeholder of its value in help texts; empty for a switch.
    pub value: &'static str,
    /// One sentence on the setting, with the unit of its value.
    pub help: &'static str,
    /// The library's default, in words; empty if there is none.
    pub default: &'static str,
    /// Methods that have the setting.
    pub scope: Scope,
    /// Effect of the setting: on privacy cost, result or speed.
    pub affects: Affects,
    /// Whether the setting may be given several times.
    pub repeats: bool,
    /// Function that sets the setting from text.
    set: SetFromText,
}

/// Function that sets a setting of a method from text.
pub type SetFromText = fn(&mut dyn Method, &str) -> Result<()>;

/// The methods that have a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// All methods.
    Shared,
    /// Private methods.
    Private,
    /// Private methods whose clip norm can be set.
    Clip,
    /// Methods that take masks and gradient dropping.
    Sparse,
    /// One method.
    Own,
    /// All methods, and a plan that is made already: it says how the run is executed.
    Execution,
}

/// Effect of a setting: on privacy cost, result or speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Affects {
    /// The privacy cost of the run, and its result.
    Cost,
    /// The result of the run.
    Outcome,
    /// The speed of the run and its rounding.
    Speed,
}

/// Pairs of settings that exclude each other, because one decides the other.
const EXCLUSIVE_OPTIONS: [(&str, &str); 2] = [("epochs", "steps"), ("epsilon", "noise_multiplier")];

impl SettingSpec {
    /// Returns a setting that only one method has, which [`MethodDescriptor::own`] lists. `help` is
    /// one sentence on it.
    pub const fn new(id: &'static str, help: &'static str, set: SetFromText) -> Self {
        Self {
            id,
            aliases: &[],
            value: "X",
            help,
            default: "",
            scope: Scope::Own,
            affects: Affects::Outcome,
            repeats: false,
            set,
        }
    }

    /// Sets the placeholder of its value; empty for a switch.
    pub const fn value(self, value: &'static str) -> Self {
        Self { value, ..self }
    }

    /// Sets the default in words.
    pub const fn default_value(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    /// Sets its other names, with underscores.
    pub const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Sets the effect of the setting.
    pub(crate) const fn affects(self, affects: Affects) -> Self {
        Self { affects, ..self }
    }

    pub(in crate::methods) const fn scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    pub(in crate::methods) const fn repeats(self) -> Self {
        Self { repeats: true, ..self }
    }

    /// Returns the name as an option of commands, without dashes: `batch-size`.
    pub fn option(&self) -> String {
        self.id.replace('_', "-")
    }

    /// Returns whether the setting has this name, with dashes or underscores.
    pub fn is_named(&self, name: &str) -> bool {
        let name = name.replace('-', "_");
        self.id == name || self.aliases.contains(&&*name)
    }

    /// Returns the setting that this one excludes, if there is one.
    pub fn excludes(&self) -> Option<&'static str> {
        let other = |&(one, other): &(&'static str, &'static str)| match self.id {
            id if id == one => Some(other),
            id if id == other => Some(one),
            _ => None,
        };
        EXCLUSIVE_OPTIONS.iter().find_map(other)
    }

    /// Sets the setting of a method from text.
    ///
    /// # Errors
    /// `Setting` for a value that can't be read, and for a method that does not have the setting.
    pub fn set(&self, method: &mut dyn Method, text: &str) -> Result<()> {
        match self.refusal(method.descriptor()) {
            Some(why) => Err(Error::setting(self.id, text, why).fix("leave it out")),
            None => (self.set)(method, text),
        }
    }

    /// Returns why a method does not have the setting, as a phrase; `None` if it has.
    pub fn refusal(&self, method: &MethodDescriptor) -> Option<String> {
        let why = match self.scope {
            Scope::Private | Scope::Clip if !method.adds_noise => "neither clips nor adds noise",
            Scope::Clip if !method.takes_clip => "has no clip norm to set",
            Scope::Sparse if !method.supports_sparsity => "takes no mask and drops nothing",
            Scope::Own if !method.own.iter().any(|spec| spec.id == self.id) => {
                "has no such setting"
            }
            _ => return None,
        };
        Some(format!("the method {} {why}", method.name))
    }
}

/// Sets a setting of a method by name: [`Method::set`].
pub(in crate::methods) fn set(method: &mut dyn Method, name: &str, text: &str) -> Result<()> {
    let descriptor = method.descriptor();
    let known = super::shared_settings().chain(descriptor.own);
    match known.clone().find(|spec| spec.is_named(name)) {
        Some(spec) => spec.set(method, text),
        None => {
            let names: Vec<&str> = known.map(|spec| spec.id).collect();
            let why = format!("{} has no such setting", descriptor.title);
            Err(Error::setting(name, text, why).fix(format!("choose from {}", names.join(", "))))
        }
    }
}

/// Values that settings read from text.
pub(in crate::methods) trait SettingValue: Sized {
    /// Reads the value of the setting `name`.
    ///
    /// # Errors
    /// `Setting` for a text that is no such value.
    fn read(name: &str, text: &str) -> Result<Self>;
}

/// Implements [`SettingValue`] for numbers, for types with a text form of their own, for those of
/// accounting and for numbers with a name.
macro_rules! read {
    (
        [$($number:ty: $kind:literal, $example:literal),*] ;
        $($type:ty),* ;
        $($wrapper:ident),* ;
        $($named:ty: [$($name:literal => $value:expr),*]),*
    ) => {
        $(impl SettingValue for $number {
            fn read(name: &str, text: &str) -> Result<Self> {
                text.trim().parse().map_err(|_| {
                    let why = concat!("not ", $kind);
                    Error::setting(name, text, why).fix(concat!("use for example ", $example))
                })
            }
        })*
        $(impl SettingValue for $type {
            fn read(_: &str, text: &str) -> Result<Self> {
                text.parse::<Self>().map_err(Into::into)
            }
        })*
        $(impl SettingValue for $wrapper {
            fn read(name: &str, text: &str) -> Result<Self> {
                f64::read(name, text).map($wrapper)
            }
        })*
        $(impl SettingValue for $named {
            fn read(name: &str, text: &str) -> Result<Self> {
                choose(name, text, &[$(($name, $value)),*])
            }
        })*
    };
}
read!(
    [
        f64: "a number", "0.5 or 1e-3",
        usize: "a whole number, 0 or more", "256",
        u64: "a whole number, 0 or more", "256"
    ];
    Optimizer, LearningRate, WarmUp, Average, CheckpointInterval, NoiseSchedule, ClipSchedule;
    Epsilon, Delta;
    bool: ["true" => true, "false" => false],
    Augment: ["true" => Augment::default()],
    NeighbouringRelation: [
        "zero-out" => NeighbouringRelation::ZeroOutOne, "replace-one" => NeighbouringRelation::ReplaceOne
    ],
    Precision: ["f32" => Precision::F32, "bf16" => Precision::Bf16],
    DroppedStatePolicy: ["lazy" => DroppedStatePolicy::Lazy, "zeros" => DroppedStatePolicy::Zeros]
);

impl SettingValue for String {
    fn read(_: &str, text: &str) -> Result<Self> {
        Ok(text.to_owned())
    }
}

impl<T: SettingValue> SettingValue for Option<T> {
    fn read(name: &str, text: &str) -> Result<Self> {
        if text == "none" { Ok(None) } else { T::read(name, text).map(Some) }
    }
}

/// Returns the value of this name.
///
/// # Errors
/// `Setting` for an unknown name, with those there are.
pub(in crate::methods) fn choose<T: Clone>(
    setting: &str,
    name: &str,
    known: &[(&str, T)],
) -> Result<T> {
    let found = known.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| value.clone()).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        Error::setting(setting, name, "unknown value")
            .fix(format!("choose from {}", names.join(", ")))
    })
}

/// Returns the error of a setting that a method does not have.
pub(in crate::methods) fn absent(setting: &str, method: &MethodDescriptor) -> Error {
    let what = format!("the setting {setting} of {}", method.title);
    Error::new(ErrorKind::Setting, what, "the method has no such setting").fix("leave it out")
}

/// Declares settings: a table of their rows, and for each a builder method.
///
/// ```text
/// settings! {
///     static SHARED in Scope::Shared, on |method| Some(method.settings_mut());
///     impl [S: MethodSettings] Builder<S>, on |builder| &mut builder.settings;
///
///     /// Documentation of the builder method.
///     #[setting("W", "0", Outcome, [], "Help in one line")]
///     fn weight_decay(weight_decay: f64) |settings| settings.weight_decay = Some(weight_decay);
/// }
/// ```
///
/// `value: T as U` reads a `U` from text; a setting without a value is a switch. `text` in place of
/// `fn` declares one that has no builder method of its own. `[..]` are other names, and `repeats`
/// behind them says that a method may be given it several times.
macro_rules! settings {
    (
        $visibility:vis static $TABLE:ident in $scope:expr, on |$method:ident| $dynamic:expr;
        impl [$($S:ident: $Bound:path)?] $Builder:ty, on |$builder:ident| $field:expr;
        $(
            $(#[doc = $doc:literal])*
            #[setting(
                $value:literal, $default:literal, $affects:ident, [$($alias:literal),*]
                $($repeats:ident)?, $help:literal
            )]
            $kind:ident $name:ident($($argument:ident: $type:ty $(as $read:ty)?)?)
                |$target:ident| $apply:expr;
        )*
    ) => {
        $visibility static $TABLE: &[$crate::methods::SettingSpec] = &[$(
            $crate::methods::SettingSpec::new(stringify!($name), $help, |$method, text| {
                let descriptor = $method.descriptor();
                let Some($target) = $dynamic else {
                    return Err($crate::methods::settings::setting_spec::absent(
                        stringify!($name),
                        descriptor,
                    ));
                };
                $crate::methods::settings::setting_spec::apply!(
                    $name, text, ($($argument: $type $(as $read)?)?) $apply
                )
            })
            .value($value)
            .default_value($default)
            .aliases(&[$($alias),*])
            .scope($scope)
            .affects($crate::methods::Affects::$affects)
            $(.$repeats())?
        ),*];

        impl$(<$S: $Bound>)? $Builder {$(
            $crate::methods::settings::setting_spec::builder_method! {
                [$(#[doc = $doc])*] $kind $name($($argument: $type $(as $read)?)?),
                ($builder, $field),
                ($target, $apply)
            }
        )*}
    };
}
pub(in crate::methods) use settings;

/// Reads the value of a setting from text and sets it.
macro_rules! apply {
    ($name:ident, $text:ident, ($argument:ident: $type:ty as $read:ty) $apply:expr) => {{
        let $argument = <$read as $crate::methods::settings::setting_spec::SettingValue>::read(
            stringify!($name),
            $text,
        )?;
        $apply;
        Ok(())
    }};
    ($name:ident, $text:ident, ($argument:ident: $type:ty) $apply:expr) => {
        $crate::methods::settings::setting_spec::apply!(
            $name, $text, ($argument: $type as $type) $apply
        )
    };
    ($name:ident, $text:ident, () $apply:expr) => {{
        if <bool as $crate::methods::settings::setting_spec::SettingValue>::read(
            stringify!($name),
            $text,
        )? {
            $apply;
        }
        Ok(())
    }};
}
pub(in crate::methods) use apply;

/// The builder method of a setting, if it has one.
macro_rules! builder_method {
    (
        [$(#[doc = $doc:literal])*] fn $name:ident($($argument:ident: $type:ty $(as $read:ty)?)?),
        ($builder:ident, $field:expr), ($target:ident, $apply:expr)
    ) => {
        $(#[doc = $doc])*
        pub fn $name(mut self, $($argument: $type)?) -> Self {
            $($(let $argument: $read = $argument.into();)?)?
            {
                let $builder = &mut self;
                let $target = $field;
                $apply;
            }
            self
        }
    };
    ([] text $($rest:tt)*) => {};
}
pub(in crate::methods) use builder_method;
