//! The bits of seeded runs, which may change only together with the version of the numerics.

use sha2::{Digest, Sha256};

use crate::Result;
use crate::data::{Dataset, from_vecs};
use crate::methods::DpSgd;
use crate::nn::{Model, models};
use crate::program::NUMERICS;
use crate::runs::load_or_train;
use crate::store::RunStore;
use crate::train::{NoopObserver, checkpoint};

/// Saved digests: version of the numerics, processor and C library, digest. A machine that is not
/// in the list prints its line.
const SAVED: [(u32, &str, &str); 3] = [
    (1, "x86_64 sse4.2 avx2 fma avx512f glibc-2.36", "d5a932166b0f0e42"),
    (1, "x86_64 sse4.2 avx2 fma glibc-2.36", "f74ddd8340344389"),
    (1, "x86_64 sse4.2 glibc-2.36", "b7d71d66cccf0491"),
];

/// Creates examples that need no random numbers.
fn data() -> Result<Dataset> {
    let x = (0..60 * 28 * 28).map(|i| ((i * 37 % 251) as f32 - 125.0) / 125.0).collect();
    from_vecs(x, &[1, 28, 28], (0..60).map(|i| i % 10).collect(), 10)
}

/// Computes the digest of the parameters after three private steps of each network.
fn digest() -> Result<String> {
    let (data, folder) = (data()?, tempfile::tempdir().unwrap());
    let store = RunStore::open(folder.path().to_path_buf()).unwrap();
    let method = DpSgd::new().noise_multiplier(1.0).clip(0.5).batch_size(20).steps(3).seed(1);
    let plan = method.learning_rate(0.5).plan(&data)?;
    let networks: [Model; 2] =
        [models::mlp(&data, &[32]).seed(1).build()?, models::papernot_cnn(&data).seed(1).build()?];
    let mut sha = Sha256::new();
    for model in &networks {
        let run = load_or_train(&store, &plan, model, &data, &mut NoopObserver)?;
        for (_, values) in run.model().network().values() {
            values.iter().for_each(|value| sha.update(value.to_bits().to_le_bytes()));
        }
    }
    Ok(sha.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}

#[test]
fn seeded_runs_give_the_saved_bits_of_this_version_of_the_numerics() -> Result<()> {
    let (processor, found) = (checkpoint::cpu_fingerprint(), digest()?);
    match SAVED.iter().find(|(version, here, _)| (*version, *here) == (NUMERICS, &*processor)) {
        Some((.., saved)) => assert_eq!(
            found, *saved,
            "seeded runs give other bits: raise program::NUMERICS, and save the digests anew"
        ),
        None => println!("skipped: no digest is saved for ({NUMERICS}, {processor:?}): {found}"),
    }
    Ok(())
}
