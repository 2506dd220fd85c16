//! What DP-SSGD adds to the steps of DP-SGD: which coordinates they are about.

use std::sync::Arc;

use burn::prelude::*;

use crate::Result;
use crate::data::Dataset;
use crate::engine::Weights;
use crate::mask::{Mask, PrePrune, Recorder, SelectionLog, Selector, check_snip};
use crate::methods::Plan;
use crate::nn::{Model, Network};
use crate::{Error, ErrorKind};

/// Randomness of the coordinates of one run. Only the noise has to be secret.
#[derive(Clone, Copy)]
pub(crate) struct MaskSeeds {
    /// For the choice of a random mask.
    pub mask: u64,
    /// For random dropping.
    pub dropping: [u8; 32],
    /// For the noise of a mask that is released.
    pub noise: [u8; 32],
    /// For dropout while saliencies are computed.
    pub dropout: u64,
}

/// The coordinates of a run: its mask, and the selection of every step.
///
/// # Guarantee
/// Neighbours: add or remove one example. A mask is given, made from the initial parameters, or
/// one noisy release on the examples, which is part of the plan's event. The selection of a step
/// is a function of the mask, the step's parameters (released before) and a stream of randomness
/// of its own; no gradient comes near it.
pub(crate) struct Coordinates {
    mask: Option<Mask>,
    trained: Option<Weights>,
    selector: Selector,
    touched: Option<Recorder>,
    step: u64,
}

impl Coordinates {
    /// What can be settled before anything is charged: a mask that is given or made from the
    /// model, and whether one can be made by DP-SNIP.
    ///
    /// # Errors
    /// If the mask is not for this model, or can't be made from it.
    pub fn before_release(
        plan: &Plan,
        model: &Model,
        data: &Dataset,
        seed: u64,
    ) -> Result<Option<Mask>> {
        let Some(recipe) = plan.sparsity().and_then(|sparsity| sparsity.pre_prune.as_ref()) else {
            return Ok(None);
        };
        let mask = match recipe {
            PrePrune::Fixed(_) => recipe.fixed_mask().cloned().ok_or_else(|| {
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

    /// The coordinates of a run. A mask by DP-SNIP is released here: its event must have been
    /// charged.
    ///
    /// # Errors
    /// As making the mask.
    pub fn begin(
        plan: &Plan,
        model: &Model,
        data: &Dataset,
        mask: Option<Mask>,
        run: &str,
        seeds: &MaskSeeds,
    ) -> Result<Self> {
        let sparsity = plan.sparsity();
        let mask = match sparsity.and_then(|sparsity| sparsity.pre_prune.as_ref()) {
            Some(PrePrune::DpSnip(recipe)) => {
                let seeds = (seeds.noise, seeds.dropout);
                Some(recipe.with_run_seed(plan.seed()).release(model, data, seeds, run)?)
            }
            _ => mask,
        };
        let trained = mask.as_ref().map(|mask| mask.weights(model.network())).transpose()?;
        let dropping = sparsity.and_then(|sparsity| sparsity.dropping);
        let selector = Selector::new(mask.as_ref(), dropping, plan.steps(), seeds.dropping);
        let touched = dropping.map(|_| Recorder::new(plan.steps()));
        Ok(Self { mask, trained, selector, touched, step: 0 })
    }

    /// The parameters that training starts from: those of the model, or zero where a zeroing mask
    /// keeps nothing.
    ///
    /// # Errors
    /// If the mask is not for this model.
    pub fn start(&self, model: &Model) -> Result<Network> {
        match self.mask.as_ref().filter(|mask| mask.is_zeroing()) {
            Some(mask) => Ok(mask.apply(model)?.network().clone()),
            None => Ok(model.network().clone()),
        }
    }

    /// The coordinates of the next step, at the network it starts from; `None` for all. What the
    /// step needs of masks is brought to where the network is, once.
    ///
    /// # Errors
    /// As [`Selector::next`].
    pub fn next(&mut self, network: &Network) -> Result<Option<Arc<Weights>>> {
        let device = network.device();
        if device != Device::flex() {
            self.trained = self.trained.take().map(|trained| trained.on(&device));
        }
        let selected = self.selector.next(network)?;
        if let (Some(touched), Some(selected)) = (&mut self.touched, &selected) {
            touched.record(self.step, selected);
        }
        self.step += 1;
        Ok(selected)
    }

    /// The coordinates that are trained at all; `None` for all.
    pub fn trained(&self) -> Option<&Weights> {
        self.trained.as_ref()
    }

    /// The mask of the run and where its steps were, for the record.
    pub fn into_record(self) -> (Option<Mask>, Option<SelectionLog>) {
        (self.mask, self.touched.map(Recorder::finish))
    }
}
