//! Masks by DP-SNIP for notebook cells: charged to the ledger, then released.

use sha2::{Digest, Sha256};

use crate::Result;
use crate::data::Dataset;
use crate::data::digest::hex;
use crate::mask::{DpSnip, Mask, check_snip};
use crate::nn::Model;
use crate::privacy::{Entry, Event};
use crate::store::{RunStore, home};
use crate::train::Seeds;

impl DpSnip {
    /// Makes a mask for a model by one noisy release on the training part of `data`, with noise by
    /// [`epsilon_delta`](Self::epsilon_delta) or [`noise_multiplier`](Self::noise_multiplier).
    ///
    /// The release is charged to the data's ledger before it is made. Each call is a new release
    /// and a new charge (save the mask to use it again), but in study mode, where the same call
    /// gives the same mask again and is charged once; `mask.saliency().unwrap().keep(0.5)` cuts
    /// masks of other sizes from the same release for nothing.
    ///
    /// # Guarantee
    /// That of the recipe, at the noise multiplier of [`event`](Self::event): what a run with this
    /// mask costs is added to it in the ledger. Without a seed the noise comes from the operating
    /// system.
    ///
    /// # Errors
    /// Kind `Setting` for numbers out of range, a share (which needs a run), an epsilon without a
    /// delta, or a model that does not fit; kind `Ledger` if the data's budget does not allow it or
    /// the ledger can't be trusted: nothing is released then. Errors of reading the examples come
    /// after the charge, which stays.
    pub fn mask(&self, model: &Model, data: &Dataset) -> Result<Mask> {
        mask_in(&RunStore::open(home())?, self, model, data)
    }
}

fn mask_in(store: &RunStore, recipe: &DpSnip, model: &Model, data: &Dataset) -> Result<Mask> {
    let recipe = recipe.calibrated(None)?;
    check_snip(model, data.train())?;
    let id = release_id(&recipe, model, data);
    let seeds = Seeds::new(recipe.study_seed(), &id)?;
    let (run, study) = match recipe.study_seed() {
        Some(_) => (format!("dp-snip-{}", &id[..16]), ", study mode"),
        None => (format!("dp-snip-{}", Seeds::nonce()?), ""),
    };
    let (ledger, mut event) = (store.ledger(data)?, recipe.event()?);
    // Noise on the sum gives no guarantee if the examples were prepared without noise.
    if let Some(why) = data.not_covered_reason() {
        event = Event::Unaccountable { why: why.to_owned() }.composed_with(&event);
    }
    // In study mode the same call gives the same mask, bit for bit: nothing new is released.
    let known =
        |(name, charged): &(String, Event)| *name == run && charged.reduced_to(&event).is_ok();
    if !ledger.runs()?.iter().any(known) {
        let note = format!("DP-SNIP mask on {}{study}", data.name());
        ledger.record(&Entry::planned(&run, data.origin(), &event).with_note(note))?;
    }
    let mut dropout = [0; 8];
    dropout.copy_from_slice(&seeds.dropout[..8]);
    let seeds = (seeds.noise, u64::from_le_bytes(dropout));
    recipe.release(model, data, seeds, &run)
}

/// Returns a hash of everything that enters the sum and its noise: in study mode, only the same
/// release may have the same noise.
fn release_id(recipe: &DpSnip, model: &Model, data: &Dataset) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{recipe:?} {} {}", model.fingerprint(), data.hash()));
    // The fingerprint of unseeded initial parameters does not include their values.
    for (parameter, values) in model.network().values() {
        hash.update(parameter.path);
        values.iter().for_each(|value| hash.update(value.to_le_bytes()));
    }
    hex(&hash.finalize())
}
