//! The coordinates of a run: its mask, and the selection of every step.

use std::sync::Arc;

use burn::prelude::*;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::data::Dataset;
use crate::engine::CoordinateWeights;
use crate::mask::{
    CoordinateSelector, FreezeConfig, Mask, PrePrune, SelectionLog, SelectionRecorder, Sparsity,
    check_snip,
};
use crate::nn::{Model, Network};
use crate::{Error, ErrorKind};

/// Seeds for the coordinates of one run. Those of noise and dropout must be secret.
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

/// Settings that determine the coordinates of a run.
#[derive(Clone, Copy)]
pub(crate) struct CoordinateConfig<'a> {
    /// Parameter tensors that are not trained.
    pub freezing: &'a FreezeConfig,
    /// Mask and gradient dropping.
    pub sparsity: Option<&'a Sparsity>,
    /// Number of steps of the run.
    pub steps: u64,
    /// Seed of a run in study mode.
    pub study_seed: Option<u64>,
    /// The name of the run in the ledger.
    pub run: &'a str,
}

/// Progress of the selections of a run: number of steps, position of the selector and log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SelectionState {
    steps: u64,
    /// Position of the selector.
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
pub(crate) struct TrainedCoordinates {
    mask: Option<Mask>,
    /// Coordinates that mask and freezing leave trainable; `None` for all.
    trained: Option<Arc<CoordinateWeights>>,
    /// Whether each parameter tensor is frozen; `None` if none is.
    frozen: Option<Vec<bool>>,
    selector: CoordinateSelector,
    recorder: Option<SelectionRecorder>,
    step: u64,
}

impl TrainedCoordinates {
    /// Makes a mask that needs no release, and checks that DP-SNIP can make the mask otherwise;
    /// called before anything is charged.
    ///
    /// # Errors
    /// If the mask is not for this model, or can't be made from it.
    pub fn prepare_mask(
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
                    .fix("make a new plan, with .pre_prune(&run.mask().unwrap())")
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

    /// Creates the coordinates of a run. A mask by DP-SNIP that is not given, because an earlier
    /// part of the run has released it, is released here, so its event must have been charged.
    ///
    /// # Errors
    /// As making the mask.
    pub fn new(
        config: CoordinateConfig<'_>,
        model: &Model,
        data: &Dataset,
        mask: Option<Mask>,
        seeds: &MaskSeeds,
    ) -> Result<Self> {
        let CoordinateConfig { freezing, sparsity, steps, study_seed, run } = config;
        let mask = match sparsity.and_then(|sparsity| sparsity.pre_prune.as_ref()) {
            Some(PrePrune::DpSnip(recipe)) if mask.is_none() => {
                let seeds = (seeds.noise, seeds.dropout);
                Some(recipe.with_run_seed(study_seed).release(model, data, seeds, run)?)
            }
            _ => mask,
        };
        let network = model.network();
        let mut trained = mask.as_ref().map(|mask| mask.to_weights(network)).transpose()?;
        let frozen = (!freezing.is_empty()).then(|| freezing.frozen_flags(network)).transpose()?;
        if let Some(frozen) = &frozen {
            trained = Some(FreezeConfig::without_frozen(network, frozen, trained.as_ref())?);
        }
        let trained = trained.map(Arc::new);
        let dropping = sparsity.and_then(|sparsity| sparsity.dropping);
        let selector = CoordinateSelector::new(mask.as_ref(), dropping, steps, seeds.dropping);
        let recorder = dropping.map(|_| SelectionRecorder::new(steps));
        Ok(Self { mask, trained, frozen, selector, recorder, step: 0 })
    }

    /// Returns the initial network: that of the model, with zeros at the coordinates that a
    /// zeroing mask removes.
    ///
    /// # Errors
    /// If the mask is not for this model.
    pub fn initial_network(&self, model: &Model) -> Result<Network> {
        match self.mask.as_ref().filter(|mask| mask.is_zeroing()) {
            Some(mask) => Ok(mask.apply(model)?.network().clone()),
            None => Ok(model.network().clone()),
        }
    }

    /// Returns the coordinates of the next step, given the network before it; `None` for all.
    /// Masks are uploaded to the network's device once. [`record_step`](Self::record_step) records
    /// them.
    ///
    /// # Errors
    /// As [`CoordinateSelector::next_selection`].
    pub fn next_selection(&mut self, network: &Network) -> Result<Option<Arc<CoordinateWeights>>> {
        let device = network.device();
        if device != Device::flex() {
            let on_device = |trained: Arc<CoordinateWeights>| {
                Arc::new((*trained).clone().with_copy_on(&device))
            };
            self.trained = self.trained.take().map(on_device);
        }
        let mut selected = self.selector.next_selection(network)?;
        if let Some(frozen) = &self.frozen {
            selected = match selected.filter(|_| self.recorder.is_some()) {
                Some(selected) => Some(Arc::new(selected.with_zeroed_tensors(frozen))),
                // Without dropping, every step selects what is trained.
                None => self.trained.clone(),
            };
        }
        Ok(selected)
    }

    /// Records the selection of a step that was taken.
    pub fn record_step(&mut self, selected: Option<&CoordinateWeights>) {
        if let (Some(recorder), Some(selected)) = (&mut self.recorder, selected) {
            recorder.record(self.step, selected);
        }
        self.step += 1;
    }

    /// Returns the mask of the run.
    pub fn mask(&self) -> Option<&Mask> {
        self.mask.as_ref()
    }

    /// Returns the progress of the selections.
    pub fn state(&self) -> SelectionState {
        let log = self.recorder.clone().map(SelectionRecorder::into_log);
        SelectionState { steps: self.step, selector: self.selector.position(), log }
    }

    /// Resumes from the progress of the selections of the same run.
    pub fn restore(&mut self, selected: SelectionState) {
        self.step = selected.steps;
        self.selector.resume(selected.selector);
        self.recorder = selected.log.map(SelectionRecorder::from_log);
    }

    /// Returns the coordinates that mask and freezing leave trainable; `None` for all.
    pub fn trained(&self) -> Option<&CoordinateWeights> {
        self.trained.as_deref()
    }

    /// Returns the mask of the run and the record of its selections.
    pub fn into_record(self) -> (Option<Mask>, Option<SelectionLog>) {
        (self.mask, self.recorder.map(SelectionRecorder::into_log))
    }
}
