//! The coordinates of a run: its mask, and the selection of every step.

use std::sync::Arc;

use burn::prelude::*;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::data::Dataset;
use crate::engine::Weights;
use crate::mask::{
    Freezing, Mask, PrePrune, Recorder, SelectionLog, Selector, Sparsity, check_snip,
};
use crate::nn::{Model, Network};
use crate::{Error, ErrorKind};

/// Seeds for the coordinates of one run. Only that of the noise must be secret.
#[derive(Clone, Copy)]
pub(crate) struct MaskSeeds {
    /// Seed of a random mask.
    pub mask: u64,
    /// Seed of random dropping.
    pub dropping: [u8; 32],
    /// Seed of the noise of a mask by DP-SNIP.
    pub noise: [u8; 32],
    /// Seed of dropout while saliencies are computed.
    pub dropout: u64,
}

/// What the coordinates of a run depend on.
#[derive(Clone, Copy)]
pub(crate) struct CoordinatesOf<'a> {
    /// Parameter tensors that are not trained.
    pub freezing: &'a Freezing,
    /// Mask and gradient dropping.
    pub sparsity: Option<&'a Sparsity>,
    /// Number of steps of the run.
    pub steps: u64,
    /// Seed of a run in study mode.
    pub study_seed: Option<u64>,
    /// The name of the run in the ledger.
    pub run: &'a str,
}

/// How far the selections of a run have come.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Selected {
    steps: u64,
    /// The position of the selector.
    selector: (u64, [u64; 2]),
    log: Option<SelectionLog>,
}

/// The coordinates of a run: its mask, and the selection of every step.
///
/// # Guarantee
/// Neighbours: one example added or removed. A mask is given, made from the initial parameters, or
/// a noisy release on the examples that is part of the plan's event. The selection of a step is a
/// function of the mask, of the parameters before the step (which are released) and of independent
/// randomness. It depends on no gradient.
pub(crate) struct Coordinates {
    mask: Option<Mask>,
    /// What mask and freezing leave; `None` for all.
    trained: Option<Arc<Weights>>,
    /// Whether each parameter tensor is frozen; `None` if none is.
    frozen: Option<Vec<bool>>,
    selector: Selector,
    touched: Option<Recorder>,
    step: u64,
}

impl Coordinates {
    /// Makes a mask that needs no release, and checks that DP-SNIP can make the mask otherwise;
    /// called before anything is charged.
    ///
    /// # Errors
    /// If the mask is not for this model, or can't be made from it.
    pub fn before_release(
        sparsity: Option<&Sparsity>,
        model: &Model,
        data: &Dataset,
        seed: u64,
    ) -> Result<Option<Mask>> {
        let Some(recipe) = sparsity.and_then(|sparsity| sparsity.pre_prune.as_ref()) else {
            return Ok(None);
        };
        let mask = match recipe {
            PrePrune::Fixed(fixed) => fixed.mask.clone().ok_or_else(|| {
                let why = "a stored plan names its mask, but does not hold it";
                Error::new(ErrorKind::Setting, "a plan without its mask", why)
                    .fix("make the plan anew, with .pre_prune(&run.mask().unwrap())")
            })?,
            PrePrune::Random(recipe) => recipe.with_default_seed(seed).mask(model)?,
            PrePrune::Synflow(recipe) => recipe.mask(model)?,
            PrePrune::Magnitude(recipe) => recipe.mask(model)?,
            PrePrune::DpSnip(_) => {
                check_snip(model, data.train())?;
                return Ok(None);
            }
        };
        mask.check(model.network())?;
        Ok(Some(mask))
    }

    /// The coordinates of a run. A mask by DP-SNIP that is not given, because an earlier part of
    /// the run has released it, is released here, so its event must have been charged.
    ///
    /// # Errors
    /// As making the mask.
    pub fn begin(
        of: CoordinatesOf<'_>,
        model: &Model,
        data: &Dataset,
        mask: Option<Mask>,
        seeds: &MaskSeeds,
    ) -> Result<Self> {
        let CoordinatesOf { freezing, sparsity, steps, study_seed, run } = of;
        let mask = match sparsity.and_then(|sparsity| sparsity.pre_prune.as_ref()) {
            Some(PrePrune::DpSnip(recipe)) if mask.is_none() => {
                let seeds = (seeds.noise, seeds.dropout);
                Some(recipe.with_run_seed(study_seed).release(model, data, seeds, run)?)
            }
            _ => mask,
        };
        let network = model.network();
        let mut trained = mask.as_ref().map(|mask| mask.weights(network)).transpose()?;
        let frozen = (!freezing.is_none()).then(|| freezing.of(network)).transpose()?;
        if let Some(frozen) = &frozen {
            trained = Some(Freezing::apply(network, frozen, trained.as_ref())?);
        }
        let trained = trained.map(Arc::new);
        let dropping = sparsity.and_then(|sparsity| sparsity.dropping);
        let selector = Selector::new(mask.as_ref(), dropping, steps, seeds.dropping);
        let touched = dropping.map(|_| Recorder::new(steps));
        Ok(Self { mask, trained, frozen, selector, touched, step: 0 })
    }

    /// The initial network: that of the model, with zeros at the coordinates that a zeroing mask
    /// does not keep.
    ///
    /// # Errors
    /// If the mask is not for this model.
    pub fn start(&self, model: &Model) -> Result<Network> {
        match self.mask.as_ref().filter(|mask| mask.is_zeroing()) {
            Some(mask) => Ok(mask.apply(model)?.network().clone()),
            None => Ok(model.network().clone()),
        }
    }

    /// The coordinates of the next step, given the network before it; `None` for all. Masks are
    /// uploaded to the network's device once. [`taken`](Self::taken) records them.
    ///
    /// # Errors
    /// As [`Selector::next`].
    pub fn next(&mut self, network: &Network) -> Result<Option<Arc<Weights>>> {
        let device = network.device();
        if device != Device::flex() {
            let on_device = |trained: Arc<Weights>| Arc::new((*trained).clone().on(&device));
            self.trained = self.trained.take().map(on_device);
        }
        let mut selected = self.selector.next(network)?;
        if let Some(frozen) = &self.frozen {
            selected = match selected.filter(|_| self.touched.is_some()) {
                Some(selected) => Some(Arc::new(selected.without(frozen))),
                // Without dropping, every step selects what is trained.
                None => self.trained.clone(),
            };
        }
        Ok(selected)
    }

    /// Records the selection of a step that was taken.
    pub fn taken(&mut self, selected: Option<&Weights>) {
        if let (Some(touched), Some(selected)) = (&mut self.touched, selected) {
            touched.record(self.step, selected);
        }
        self.step += 1;
    }

    /// The mask of the run.
    pub fn mask(&self) -> Option<&Mask> {
        self.mask.as_ref()
    }

    /// How far the selections have come.
    pub fn selected(&self) -> Selected {
        let log = self.touched.clone().map(Recorder::finish);
        Selected { steps: self.step, selector: self.selector.position(), log }
    }

    /// Goes on where the coordinates of the same run were.
    pub fn resume(&mut self, selected: Selected) {
        self.step = selected.steps;
        self.selector.resume(selected.selector);
        self.touched = selected.log.map(Recorder::after);
    }

    /// The coordinates that mask and freezing leave; `None` for all.
    pub fn trained(&self) -> Option<&Weights> {
        self.trained.as_deref()
    }

    /// The mask of the run and the record of its selections.
    pub fn into_record(self) -> (Option<Mask>, Option<SelectionLog>) {
        (self.mask, self.touched.map(Recorder::finish))
    }
}
