//! The registry of training methods. Grids, commands, cells and tests read it.

use std::any::Any;
use std::fmt;

use super::PrivateSettings;
use super::dp_sgd;
use super::{Mechanism, Plan, Settings};
use crate::data::{Dataset, Population};
use crate::engine::Bound;
use crate::nn::Network;
use crate::privacy::digits::Rounded;
use crate::privacy::{Delta, Event};
use crate::{Error, Result};

/// Calls a macro with the settings types of all methods. A new method is one more line here.
macro_rules! for_each_method {
    ($callback:ident) => {
        $callback! {
            $crate::methods::DpSgd,
            $crate::methods::DpSsgd,
            $crate::methods::AdaptiveDpSgd,
            $crate::methods::DynamicDpSgd,
            $crate::methods::QuantileDpSgd,
            $crate::methods::AutoDpSgd,
            $crate::methods::BackpropClip,
            $crate::methods::NonPrivate,
            #[cfg(test)]
            #[allow(dead_code)]
            $crate::methods::tests::soft_clip::SoftClipSgd,
        }
    };
}
pub(crate) use for_each_method;

macro_rules! all {
    ($($(#[$attribute:meta])* $method:path),* $(,)?) => {
        /// All methods with their default settings.
        pub fn methods() -> Vec<Box<dyn Method>> {
            let all: &[fn() -> Box<dyn Method>] =
                &[$($(#[$attribute])* || Box::<$method>::default()),*];
            all.iter().map(|method| method()).collect()
        }
    };
}
for_each_method!(all);

/// The recipe of the method with this title.
pub(super) fn recipe(title: &str) -> Option<&'static Recipe> {
    methods().iter().map(|method| method.recipe()).find(|recipe| recipe.title == title)
}

/// Makes the mechanism of a plan, given the seed of its noise.
pub type MakeMechanism = fn(&Plan, [u8; 32]) -> Result<Box<dyn Mechanism>>;

/// Makes the bound of one step of a plan, counted from 0.
pub type MakeBound = fn(&Plan, u64) -> Result<Option<Box<dyn Bound>>>;

/// What a method is, and what it does with a plan.
pub struct Recipe {
    /// Name in commands and grids: `dp-sgd`.
    pub name: &'static str,
    /// Name in plans, figures and ledgers: `DP-SGD`.
    pub title: &'static str,
    /// One sentence on the method, with its source.
    pub summary: &'static str,
    /// Whether its releases have noise.
    pub is_private: bool,
    /// Whether it takes masks and gradient dropping.
    pub is_sparse: bool,
    /// Makes the mechanism of a plan.
    pub mechanism: MakeMechanism,
    /// What bounds one example's influence on the sum of a step; `None` without privacy.
    pub bound: MakeBound,
    /// What the first steps of a plan release.
    ///
    /// # Guarantee
    /// The event describes the releases of the mechanism: every step of it, with the noise that the
    /// mechanism adds.
    pub event: fn(&Plan, steps: u64) -> Event,
    /// The network that the method trains, where it is not that of the model: one with other layers
    /// around the same parameters.
    pub network: fn(&Plan, &Network) -> Result<Option<Network>>,
    /// Why the method has no guarantee with this plan although it adds noise, as a phrase.
    pub not_covered: fn(&Plan) -> Option<String>,
    /// Whether clip norm, clip rule and clip schedule can be set.
    pub takes_clip: bool,
    /// Name and meaning of the settings that only this method has ([`Method::set`]).
    pub own_settings: &'static [(&'static str, &'static str)],
    /// The epsilon that the method's paper claims for a number of steps with this mean clip
    /// threshold, where no proof supports it.
    pub claim: fn(&Plan, steps: u64, mean_threshold: Option<f64>) -> Option<Claim>,
}

/// An epsilon that a paper claims without a valid proof.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The claimed epsilon.
    pub epsilon: f64,
    /// The delta of the claim.
    pub delta: Delta,
    /// Where the formula is published.
    pub source: &'static str,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (epsilon, delta) = (Rounded(self.epsilon), self.delta);
        write!(f, "epsilon {epsilon} at delta {delta} ({})", self.source)
    }
}

impl Recipe {
    /// That of DP-SGD. The recipe of a method states where it differs.
    pub(super) const DP_SGD: Self = Self {
        name: "dp-sgd",
        title: "DP-SGD",
        summary: "per-example clipping and Gaussian noise (Abadi et al., 2016)",
        is_private: true,
        is_sparse: false,
        mechanism: dp_sgd::of,
        bound: dp_sgd::bound,
        event: dp_sgd::event,
        network: |_, _| Ok(None),
        not_covered: |_| None,
        takes_clip: true,
        own_settings: &[],
        claim: |_, _, _| None,
    };

    /// The error for a setting that the method does not have.
    pub(super) fn unknown_setting(&self, name: &str, value: &str) -> Error {
        let known: Vec<&str> = self.own_settings.iter().map(|(name, _)| *name).collect();
        let why = format!("{} has no setting of this name", self.title);
        Error::setting(name, value, why).fix(if known.is_empty() {
            "leave it out: the method has no settings of its own".to_owned()
        } else {
            format!("choose from {}", known.join(", "))
        })
    }
}

/// The number of a setting.
///
/// # Errors
/// `Setting` for text that is no number.
pub(super) fn number(name: &str, value: &str) -> Result<f64> {
    value.trim().parse().map_err(|_| {
        Error::setting(name, value, "it is not a number").fix("write it like 0.5 or 1e-3")
    })
}

impl fmt::Debug for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The settings of a method before they are checked against data.
pub trait Method: Any + fmt::Debug + Send + Sync {
    /// What the method is.
    fn recipe(&self) -> &'static Recipe;

    /// The settings that all methods share.
    fn settings(&self) -> &Settings;

    /// As [`settings`](Self::settings), to change them.
    fn settings_mut(&mut self) -> &mut Settings;

    /// The settings of private methods; `None` for a method without noise.
    fn private_mut(&mut self) -> Option<&mut PrivateSettings>;

    /// Checks the settings against the size of the data and makes the plan.
    ///
    /// # Errors
    /// `Setting` for values out of range; `Accounting` if a target can't be reached.
    fn plan_for(&self, population: &Population) -> Result<Plan>;

    /// The plan for the training part of these data.
    ///
    /// # Errors
    /// As [`plan_for`](Self::plan_for).
    fn plan(&self, data: &Dataset) -> Result<Plan> {
        self.plan_for(&data.into())
    }

    /// Sets one of the method's [own settings](Recipe::own_settings) from text.
    ///
    /// # Errors
    /// `Setting` for an unknown name or a value that can't be read.
    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        Err(self.recipe().unknown_setting(name, value))
    }

    /// The same method without mask and gradient dropping.
    fn dense(&self) -> Box<dyn Method> {
        let mut dense = self.boxed_clone();
        dense.settings_mut().sparsity = None;
        dense
    }

    /// Returns a copy.
    fn boxed_clone(&self) -> Box<dyn Method>;

    /// Returns whether `other` is the same method with the same settings.
    fn equals(&self, other: &dyn Method) -> bool;
}

impl Clone for Box<dyn Method> {
    fn clone(&self) -> Self {
        (**self).boxed_clone()
    }
}

impl PartialEq for dyn Method {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other)
    }
}

/// Implements [`Method`] for a type with a field `settings` and an inherent `plan_for`, given its
/// recipe, a function to its private settings and the methods that differ from the defaults.
macro_rules! method {
    ($method:ty, $recipe:expr, $private:expr $(, $($own:tt)*)?) => {
        impl $crate::methods::Method for $method {
            fn recipe(&self) -> &'static $crate::methods::Recipe {
                $recipe
            }
            fn settings(&self) -> &$crate::methods::Settings {
                &self.settings
            }
            fn settings_mut(&mut self) -> &mut $crate::methods::Settings {
                &mut self.settings
            }
            fn private_mut(&mut self) -> Option<&mut $crate::methods::PrivateSettings> {
                let private: fn(&mut Self) -> Option<&mut $crate::methods::PrivateSettings> =
                    $private;
                private(self)
            }
            fn plan_for(
                &self,
                population: &$crate::data::Population,
            ) -> $crate::Result<$crate::methods::Plan> {
                self.plan_for(population)
            }
            fn boxed_clone(&self) -> Box<dyn $crate::methods::Method> {
                Box::new(self.clone())
            }
            fn equals(&self, other: &dyn $crate::methods::Method) -> bool {
                (other as &dyn std::any::Any).downcast_ref() == Some(self)
            }
            $($($own)*)?
        }
    };
}
pub(crate) use method;
