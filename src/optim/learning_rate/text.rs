//! The text form of schedules.

use std::fmt;
use std::str::FromStr;

use super::{CycleMode, CycledMomentum, LearningRate};
use crate::{Error, Result};

impl fmt::Display for LearningRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => write!(f, "constant"),
            Self::Linear { end_factor } => {
                write!(f, "linear{}", SuffixUnlessDefault(0.0, *end_factor))
            }
            Self::Exponential { gamma } => write!(f, "exponential:{gamma}"),
            Self::Polynomial { power } => write!(f, "polynomial:{power}"),
            Self::Step { every, gamma } => write!(f, "step:{every}:{gamma}"),
            Self::MultiStep { milestones, gamma } => {
                let milestones: Vec<_> = milestones.iter().map(f64::to_string).collect();
                write!(f, "multi-step:{}:{gamma}", milestones.join(","))
            }
            Self::Piecewise { phases } => {
                let phases: Vec<String> =
                    phases.iter().map(|(epochs, factor)| format!("{epochs}x{factor}")).collect();
                write!(f, "piecewise:{}", phases.join(","))
            }
            Self::Cosine { end_factor } => {
                write!(f, "cosine{}", SuffixUnlessDefault(0.0, *end_factor))
            }
            Self::CosineRestarts { period, growth, end_factor } => {
                write!(
                    f,
                    "cosine-restarts:{period}:{growth}{}",
                    SuffixUnlessDefault(0.0, *end_factor)
                )
            }
            Self::Cyclic { base_factor, up, down, mode, momentum } => {
                write!(f, "cyclic:{base_factor}:{up}:{down}{mode}")?;
                momentum.map_or(Ok(()), |momentum| write!(f, "{momentum}"))
            }
            Self::OneCycle { rise, initial_divisor, final_divisor, linear, momentum } => {
                write!(f, "one-cycle:{rise}{}", if *linear { ":linear" } else { "" })?;
                if (*initial_divisor, *final_divisor) != (25.0, 1e4) {
                    write!(f, ":divisors={initial_divisor},{final_divisor}")?;
                }
                momentum.map_or(Ok(()), |momentum| write!(f, "{momentum}"))
            }
            Self::Plateau { factor, patience, threshold } => {
                write!(f, "plateau:{factor}:{patience}")?;
                if *threshold == 1e-4 { Ok(()) } else { write!(f, ":threshold={threshold}") }
            }
        }
    }
}

/// `:value`, or nothing for the usual value.
struct SuffixUnlessDefault(f64, f64);

impl fmt::Display for SuffixUnlessDefault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(usual, value) = self;
        if usual == value { Ok(()) } else { write!(f, ":{value}") }
    }
}

impl fmt::Display for CycleMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Triangular => Ok(()),
            Self::Triangular2 => write!(f, ":triangular2"),
            Self::ExpRange { gamma } => write!(f, ":exp-range={gamma}"),
        }
    }
}

impl fmt::Display for CycledMomentum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ":momentum={}-{}", self.low, self.high)
    }
}

impl FromStr for LearningRate {
    type Err = Error;

    /// Parses the text form that `Display` writes; parameters with usual values may be left out.
    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let unknown = || {
            Error::setting("learning-rate schedule", text, "not a learning-rate schedule").fix(
                "use constant, linear, exponential:0.95, polynomial:2, step:30:0.1, \
                     multi-step:30,60:0.1, piecewise:10x1,5x0.8, cosine, \
                     cosine-restarts:10:2, cyclic:0.1:50, one-cycle, \
                     one-cycle:momentum=0.85-0.95 or plateau:0.1:10",
            )
        };
        parse(text).ok_or_else(unknown)?.check().cloned()
    }
}

/// Parses a schedule; `None` if the text is not the form of one.
fn parse(text: &str) -> Option<LearningRate> {
    let mut parts = TextParts(text.split(':').map(str::trim).collect());
    let schedule = match parts.next_part()? {
        "constant" => LearningRate::Constant,
        "linear" => LearningRate::Linear { end_factor: parts.number_or(0.0)? },
        "exponential" => LearningRate::Exponential { gamma: parts.number()? },
        "polynomial" => LearningRate::Polynomial { power: parts.number()? },
        "step" => LearningRate::Step { every: parts.number()?, gamma: parts.number_or(0.1)? },
        "multi-step" => {
            let milestones = parts.next_part()?.split(',').map(|epoch| epoch.trim().parse().ok());
            LearningRate::MultiStep {
                milestones: milestones.collect::<Option<_>>()?,
                gamma: parts.number_or(0.1)?,
            }
        }
        "piecewise" => {
            let phases = parts.next_part()?.split(',').map(|phase| {
                let (epochs, factor) = phase.trim().split_once('x')?;
                Some((epochs.parse().ok()?, factor.parse().ok()?))
            });
            LearningRate::Piecewise { phases: phases.collect::<Option<_>>()? }
        }
        "cosine" => LearningRate::Cosine { end_factor: parts.number_or(0.0)? },
        "cosine-restarts" => LearningRate::CosineRestarts {
            period: parts.number()?,
            growth: parts.number_or(1)?,
            end_factor: parts.number_or(0.0)?,
        },
        "cyclic" => {
            let momentum = parts.momentum()?;
            let mode = match (parts.flag("triangular2"), parts.option("exp-range")) {
                (false, None) => CycleMode::Triangular,
                (true, None) => CycleMode::Triangular2,
                (false, Some(gamma)) => CycleMode::ExpRange { gamma: gamma.parse().ok()? },
                (true, Some(_)) => return None,
            };
            let (base_factor, up) = (parts.number()?, parts.number()?);
            LearningRate::Cyclic { base_factor, up, down: parts.number_or(up)?, mode, momentum }
        }
        "one-cycle" => {
            let (linear, momentum) = (parts.flag("linear"), parts.momentum()?);
            let divisors = parts.option("divisors").unwrap_or("25,1e4").split_once(',')?;
            LearningRate::OneCycle {
                rise: parts.number_or(0.3)?,
                initial_divisor: divisors.0.parse().ok()?,
                final_divisor: divisors.1.parse().ok()?,
                linear,
                momentum,
            }
        }
        "plateau" => LearningRate::Plateau {
            threshold: parts.option("threshold").unwrap_or("1e-4").parse().ok()?,
            factor: parts.number_or(0.1)?,
            patience: parts.number_or(10)?,
        },
        _ => return None,
    };
    parts.0.is_empty().then_some(schedule)
}

/// The parts of a text that are not yet read.
struct TextParts<'a>(Vec<&'a str>);

impl<'a> TextParts<'a> {
    /// Returns the next part.
    fn next_part(&mut self) -> Option<&'a str> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// Returns the next part as a number.
    fn number<T: FromStr>(&mut self) -> Option<T> {
        self.next_part()?.parse().ok()
    }

    /// Returns the next part as a number, `usual` if there is none.
    fn number_or<T: FromStr>(&mut self, usual: T) -> Option<T> {
        if self.0.is_empty() { Some(usual) } else { self.number() }
    }

    /// Returns whether there is a part `name`.
    fn flag(&mut self, name: &str) -> bool {
        let found = self.0.iter().position(|part| *part == name);
        found.map(|index| self.0.remove(index)).is_some()
    }

    /// Returns the text after `name=`, if there is one.
    fn option(&mut self, name: &str) -> Option<&'a str> {
        let value = |part: &&'a str| part.strip_prefix(name)?.strip_prefix('=');
        let index = self.0.iter().position(|part| value(part).is_some())?;
        value(&self.0.remove(index))
    }

    /// Returns the range of `momentum=low-high`, if there is one.
    fn momentum(&mut self) -> Option<Option<CycledMomentum>> {
        let Some(range) = self.option("momentum") else { return Some(None) };
        let (low, high) = range.split_once('-')?;
        Some(Some(CycledMomentum { low: low.parse().ok()?, high: high.parse().ok()? }))
    }
}
