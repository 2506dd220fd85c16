//! Differential privacy accounting: pure computation, without tensors, files, clocks or randomness.
//!
//! - An [`Event`] describes a release as inert data.
//! - An [`Accountant`] turns a list of events into an epsilon: [`Pld`], [`Rdp`], [`Gdp`], [`Zcdp`],
//!   [`Tcdp`]. [`TightestAccountant`] reports the smallest proved epsilon. [`compare_accountants`]
//!   evaluates several accountants on the same events.
//! - [`calibrate`] solves for a noise multiplier, a number of steps, a batch size or a delta, for
//!   example [`noise_multiplier_for`]. Its results never exceed the target epsilon.
//! - [`Stages`] are the table of a run: steps, noise multiplier and scale of the clip norm. A
//!   [`NoiseSchedule`] and a [`ClipSchedule`] make them.
//! - The [`Ledger`] of a data set records every event before the release is used. A
//!   [`Book`](ledger::Book) keeps its entries.
//! - [`statement()`] writes out what is guaranteed and what is not. [`attack_bounds()`] gives
//!   bounds on the success of a membership inference attack.
//!
//! ```
//! use epsilab_accounting::{Accountant, Delta, Event, Rdp};
//! let training =
//!     Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.0, steps: 1000 };
//! let spent = Rdp::default().epsilon(&[training], Delta(1e-5))?;
//! assert!((spent.epsilon - 2.1014).abs() < 1e-3);
//! # Ok::<(), epsilab_accounting::Error>(())
//! ```
#![warn(missing_docs)]

pub mod accountant;
pub mod attack_bounds;
#[doc(hidden)]
pub mod bisection;
pub mod calibrate;
#[doc(hidden)]
pub mod digits;
mod error;
pub mod event;
pub mod gdp;
pub mod group;
pub mod ledger;
pub mod neighbouring;
pub(crate) mod noise_grid;
pub mod pld;
pub mod privacy_profile;
pub mod rdp;
mod run_releases;
pub mod schedule;
pub mod stages;
pub mod statement;
pub mod tcdp;
pub mod tightest;
pub mod training_length;
mod trials;
pub mod units;
pub mod zcdp;

pub use accountant::{Accountant, PrivacyCost};
pub use attack_bounds::percent_rounded_up;
pub use attack_bounds::{AttackBounds, TradeOff, attack_bounds};
pub use calibrate::{
    CalibratedBatchSize, CalibratedDelta, CalibratedNoise, CalibratedSteps, batch_size_for,
    delta_for, epsilon_for, noise_multiplier_for, noise_multiplier_for_best_of,
    noise_multiplier_for_events, noise_multiplier_for_stages, noise_multiplier_given_prior,
    steps_for,
};
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, STOPPING_ASSUMPTION};
pub use gdp::{Gdp, GdpClt};
pub use group::group_epsilon;
pub use ledger::{Budget, BudgetStatus, Entry, EntryContent, Ledger};
pub use neighbouring::NeighbouringRelation;
pub use pld::Pld;
pub use privacy_profile::PrivacyProfile;
pub use rdp::{Conversion, OrderList, Rdp};
pub use run_releases::RunReleases;
pub use schedule::{ClipSchedule, NoiseSchedule};
pub use stages::{Stage, Stages};
pub use statement::{Badge, GuaranteeFacts, caveats, statement};
pub use tcdp::Tcdp;
pub use tightest::{AccountantResult, TightestAccountant, compare_accountants, epsilon};
pub use training_length::TrainingLength;
pub use trials::Trials;
pub use units::{Delta, Epsilon, NoiseMultiplier, SamplingRate};
pub use zcdp::Zcdp;

/// Example of the README, compiled as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
