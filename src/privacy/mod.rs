//! Privacy as pure mathematics: no tensors, no training, nothing random.
//!
//! The story is told once, as inert data, and read by everybody:
//!
//! - [`Event`] documents what was (or will be) released;
//! - an [`Accountant`] turns a list of events into an epsilon: [`Pld`], [`Rdp`], [`Gdp`],
//!   [`Zcdp`]; [`Headline`] reports the smallest that is proved, [`compare`] asks all of them;
//! - [`calibrate`] goes the other way ([`noise_multiplier_for`] and the like) and errs on the
//!   safe side; a [`NoiseSchedule`] changes the noise from epoch to epoch;
//! - the [`Ledger`] of a data set remembers every event, on disk, before a release is used;
//! - [`statement()`] says in words what is guaranteed and what is not, [`meaning()`] how well the
//!   best attacker could guess.
//!
//! ```
//! use epsilab::privacy::{Accountant, Delta, Event, Rdp};
//! let training =
//!     Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.0, steps: 1000 };
//! let spent = Rdp::default().epsilon(&[training], Delta(1e-5))?;
//! assert!((spent.epsilon - 2.1014).abs() < 1e-3);
//! # Ok::<(), epsilab::Error>(())
//! ```

pub mod accountant;
pub mod calibrate;
pub(crate) mod digits;
pub mod event;
pub mod gdp;
pub mod headline;
pub mod ledger;
pub mod meaning;
pub mod neighbouring;
pub mod pld;
pub mod profile;
pub mod rdp;
pub mod schedule;
pub mod statement;
pub mod tcdp;
pub mod units;
pub mod zcdp;

pub use accountant::{Accountant, Spent};
pub use calibrate::{
    Calibrated, CalibratedBatchSize, CalibratedDelta, CalibratedSteps, Length, batch_size_for,
    delta_for, epsilon_for, noise_multiplier_for, noise_multiplier_for_schedule,
    noise_multiplier_given_prior, steps_for,
};
pub use event::Event;
pub(crate) use event::STOPPING;
pub use gdp::{Gdp, GdpClt};
pub use headline::{Answer, Headline, compare, epsilon};
pub use ledger::{Budget, Entry, EntryKind, Ledger, Spending};
pub(crate) use meaning::percent_rounded_up;
pub use meaning::{Meaning, TradeOff, meaning};
pub use neighbouring::Neighbouring;
pub use pld::Pld;
pub use profile::Profile;
pub use rdp::{Conversion, OrderList, Rdp};
pub use schedule::NoiseSchedule;
pub use statement::{Badge, GuaranteeFacts, statement};
pub use tcdp::Tcdp;
pub use units::{Delta, Epsilon, NoiseMultiplier, SamplingRate};
pub use zcdp::Zcdp;
