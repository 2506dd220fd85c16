//! Runs on the disk: damaged, changed, half-written.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{RunStore, run_id};
use crate::data::{self, Dataset};
use crate::mask::{Dropping, RandomMask};
use crate::methods::{DpSgd, DpSsgd, Plan};
use crate::nn::{Model, models};
use crate::privacy::{Delta, Epsilon, RunReleases, Trials};
use crate::train::{NoopObserver, Run};
use crate::{ErrorKind, Result};

/// A project with one stored run, of which there is everything that a run can have.
struct Project {
    folder: tempfile::TempDir,
    store: RunStore,
    data: Dataset,
    model: Model,
    plan: Plan,
    id: String,
}

impl Project {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path().to_path_buf()).unwrap();
        let data = data::glyphs_with(200, 10, 91)?;
        let model = models::mlp(&data, &[4]).seed(1).build()?;
        let method = DpSsgd::from(DpSgd::new().target(Epsilon(4.0), Delta(1e-4)));
        let method = method.batch_size(20).steps(2).pre_prune(RandomMask::keep(0.5));
        let plan = method.drop_gradients(Dropping::random(0.5)).plan(&data)?;
        let id = run_id(&plan, &model, &data)?;
        let project = Self { folder, store, data, model, plan, id };
        project.train()?;
        Ok(project)
    }

    fn train(&self) -> Result<Run> {
        let Self { store, data, model, plan, id, .. } = self;
        crate::runs::train_as(store, id, plan, model, data, &mut NoopObserver)
    }

    /// Returns the stored run that is shown the second time.
    fn shown(&self) -> Result<Option<Run>> {
        self.store.load_charged_run(&self.id, &self.model, &self.data)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.store.run_dir(&self.id).join(name)
    }

    fn runs(&self) -> Vec<String> {
        let runs = fs::read_dir(self.folder.path().join("runs")).unwrap();
        runs.map(|run| run.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    #[track_caller]
    fn refused(&self, name: &str) -> String {
        let error = self.shown().expect_err(name);
        assert_eq!(error.kind(), ErrorKind::CorruptData, "{name}: {error}");
        assert!(error.what().contains(name), "{name}: {error}");
        assert!(error.advice().contains("backup"), "{name}: {error}");
        error.to_string()
    }
}

/// Changes a JSON file.
fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut json = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
}

/// Flips the lowest bit of the last byte.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(path, bytes).unwrap();
}

const CHECKED: [&str; 4] = ["model.safetensors", "mask.safetensors", "touched.json", "curve.json"];

#[test]
fn a_flipped_bit_in_a_stored_run_is_found() -> Result<()> {
    let project = Project::new()?;
    assert!(project.shown()?.expect("it is stored").warnings().is_empty());
    for name in CHECKED {
        flip(&project.file(name));
        let text = project.refused(name);
        assert!(text.contains("SHA-256") && text.contains("outside the project's runs"), "{text}");
        flip(&project.file(name));
        assert!(project.shown()?.is_some(), "{name} is as it was");
    }
    Ok(())
}

#[test]
fn a_missing_file_of_a_run_is_named_and_nothing_is_trained_in_its_place() -> Result<()> {
    let project = Project::new()?;
    for name in [&CHECKED[..], &["settings.json", "result.json"]].concat() {
        let aside = project.folder.path().join("aside");
        fs::rename(project.file(name), &aside).unwrap();
        assert!(project.refused(name).contains("is missing"));
        fs::rename(aside, project.file(name)).unwrap();
    }
    assert!(project.shown()?.is_some());
    fs::remove_dir_all(project.store.run_dir(&project.id)).unwrap();
    assert!(project.shown()?.is_none(), "a run that is gone is no damage");
    Ok(())
}

#[test]
fn a_record_without_checksums_is_damaged() -> Result<()> {
    let project = Project::new()?;
    edit(&project.file("result.json"), |json| {
        json.as_object_mut().unwrap().remove("sha256").expect("it was there");
    });
    project.refused("result.json");
    Ok(())
}

#[test]
fn a_file_that_was_laid_beside_a_run_is_no_part_of_it() -> Result<()> {
    let project = Project::new()?;
    edit(&project.file("result.json"), |json| {
        json["sha256"].as_object_mut().unwrap().remove("touched.json").expect("it was there");
    });
    assert!(project.shown()?.expect("it is stored").selection_log().is_none());
    Ok(())
}

#[test]
fn a_run_that_cannot_be_stored_leaves_nothing_half_written() -> Result<()> {
    let project = Project::new()?;
    let run = project.shown()?.expect("it is stored");
    let impossible = [("no/such/folder.svg", vec![1])];
    assert_eq!(project.store.save(&run, &impossible).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(project.runs(), std::slice::from_ref(&project.id), "nothing but the earlier one");
    assert!(project.shown()?.is_some());
    project.store.save(&run, &[("run.svg", vec![1])])?;
    let mut runs = project.runs();
    runs.sort();
    assert_eq!(runs, [project.id.clone(), format!("{}.1", project.id)]);
    Ok(())
}

/// Halves the steps that a record says were released.
fn fewer_steps(json: &mut Value) {
    let text = json["released"].to_string().replace("\"steps\":2", "\"steps\":1");
    assert_ne!(text, json["released"].to_string());
    json["released"] = serde_json::from_str(&text).unwrap();
}

#[test]
fn releases_and_epsilon_edited_together_are_found_by_the_ledger() -> Result<()> {
    let project = Project::new()?;
    let honest = project.shown()?.expect("it is stored");
    edit(&project.file("result.json"), |json| {
        fewer_steps(json);
        let released: RunReleases = serde_json::from_value(json["released"].clone()).unwrap();
        let cheaper = crate::privacy::epsilon(&released.events(), Delta(1e-4)).unwrap().epsilon;
        assert!(cheaper < honest.epsilon());
        json["epsilon"] = cheaper.into();
        json["planned_epsilon"] = cheaper.into();
    });
    let text = project.refused("releases of the stored run");
    assert!(text.contains("the ledger charged"), "{text}");
    Ok(())
}

#[test]
fn a_stored_epsilon_is_claimed_only_if_it_is_what_the_releases_cost() -> Result<()> {
    let project = Project::new()?;
    let epsilon = |run: &Run| run.record().epsilon;
    let honest = project.shown()?.expect("it is stored");
    let true_epsilon = honest.epsilon();
    assert!(honest.warnings().is_empty() && true_epsilon > 3.0, "{honest}");
    let path = project.file("result.json");
    let with = |change: &dyn Fn(&mut Value)| -> Result<Run> {
        let before = fs::read(&path).unwrap();
        edit(&path, change);
        // Not compared with the ledger.
        let run = project.store.load_finished(&project.id, &project.model, &project.data)?;
        fs::write(&path, before).unwrap();
        Ok(run.expect("it is stored"))
    };
    // Edited smaller, epsilon and plan alike: never claimed, anywhere.
    let cheap = with(&|json| {
        json["epsilon"] = 0.1.into();
        json["planned_epsilon"] = 0.1.into();
    })?;
    assert!((cheap.epsilon() / true_epsilon - 1.0).abs() < 1e-9);
    assert_eq!(cheap.record().planned_epsilon, epsilon(&cheap));
    let [warning] = cheap.warnings() else { panic!("{:?}", cheap.warnings()) };
    assert!(warning.contains("epsilon of this run, 0.1, differs from"), "{warning}");
    assert!(!cheap.statement().to_string().contains("0.1,"), "{}", cheap.statement());
    // Releases edited smaller: the number that was on record stays.
    let fewer = with(&fewer_steps)?;
    assert!(fewer.epsilon() >= true_epsilon && fewer.warnings().len() == 1, "{fewer}");
    // What no accountant covers has no epsilon, whatever its file says.
    let open = with(&|json| {
        json["released"] = serde_json::json!({"training": {"kind": "unaccountable", "why": "raw"}});
    })?;
    assert_eq!((epsilon(&open), open.epsilon()), (None, f64::INFINITY));
    assert!(open.warnings()[0].contains("is not claimed"), "{:?}", open.warnings());
    Ok(())
}

/// The folders of two classes of the test part were swapped: as many examples, other labels.
#[test]
fn a_stored_run_is_shown_with_the_accuracy_on_the_test_part_of_the_present_call() -> Result<()> {
    let project = Project::new()?;
    let Project { store, data, model, plan, .. } = &project;
    let first = project.shown()?.expect("it is stored");
    assert!(first.warnings().is_empty(), "{:?}", first.warnings());
    // Labels that the model gets all right, or all wrong.
    let test = data.test();
    let predicted = first.model().predict_examples(test)?;
    let labelled = |label_of: &dyn Fn(u32) -> u32| {
        let labels = predicted.iter().map(|&class| label_of(class)).collect();
        let features = test.features_flat().to_vec();
        let relabelled = data::from_vecs(features, test.shape(), labels, data.classes())?;
        Ok(data.with_test(relabelled.train().clone()))
    };
    let cases: [Result<Dataset>; 2] =
        [labelled(&|class| class), labelled(&|class| (class + 1) % 10)];
    for (changed, accuracy) in cases.into_iter().zip([1.0, 0.0]) {
        let changed = changed?;
        assert_eq!(
            (changed.hash(), run_id(plan, model, &changed)?),
            (data.hash(), project.id.clone())
        );
        assert_ne!(changed.test_hash(), data.test_hash());
        let run = crate::runs::load_or_train(store, plan, model, &changed, &mut NoopObserver)?;
        assert!(run.is_restored(), "nothing is trained or charged again");
        assert_eq!(run.record().test_accuracy, Some(accuracy));
        assert_eq!(run.curve().series(|point| point.test_accuracy).len(), 1);
        assert!(run.warnings()[0].contains("test part has changed"), "{:?}", run.warnings());
    }
    // The old test part has its old accuracy.
    assert_eq!(project.shown()?.map(|run| run.accuracy()), Some(first.accuracy()));
    Ok(())
}

/// The test part decides which trial is shown: with another one it is another run.
#[test]
fn a_private_selection_on_another_test_part_is_another_run() -> Result<()> {
    let data = data::glyphs_with(60, 10, 92)?;
    let model = models::linear(&data).seed(1).build()?;
    let plan = DpSgd::new().noise_multiplier(2.0).batch_size(20).steps(2).plan(&data)?;
    let selection = Plan::best_of(Trials::geometric(2.0), vec![plan.clone()])?;
    let other = data.with_test(data::glyphs_with(60, 10, 93)?.test().clone());
    assert_ne!(data.test_hash(), other.test_hash());
    assert_ne!(run_id(&selection, &model, &data)?, run_id(&selection, &model, &other)?);
    assert_eq!(run_id(&plan, &model, &data)?, run_id(&plan, &model, &other)?);
    Ok(())
}

/// A remembered run is found by everything that its result depends on.
#[test]
fn each_input_of_a_run_is_in_its_id() -> Result<()> {
    let examples = |feature: f32, label: u32, classes: usize| {
        let mut x: Vec<f32> = (0..60).map(|i| i as f32 / 60.0).collect();
        let mut y: Vec<u32> = (0..30).map(|i| i % 2).collect();
        x[59] = feature;
        y[29] = label;
        data::from_vecs(x, &[2], y, classes)
    };
    let method = || DpSgd::new().noise_multiplier(2.0).batch_size(10).steps(3);
    let masked = |path: &Path, seed: u64| {
        let data = examples(0.5, 0, 2)?;
        let model = models::mlp(&data, &[4]).seed(1).build()?;
        RandomMask::keep(0.5).seed(seed).mask(&model)?.save(path)?;
        method().pre_prune(crate::mask::Mask::load(path)?).plan(&data)
    };
    let folder = tempfile::tempdir().unwrap();
    let base = examples(0.5, 0, 2)?;
    let model =
        |data: &Dataset, hidden: usize, seed: u64| models::mlp(data, &[hidden]).seed(seed).build();
    let plan = |change: &dyn Fn(DpSgd) -> DpSgd, data: &Dataset| change(method()).plan(data);
    let same: &dyn Fn(DpSgd) -> DpSgd = &|method| method;
    let mut ids = Vec::new();
    for data in [
        base.clone(),
        examples(f32::from_bits(0.5f32.to_bits() + 1), 0, 2)?,
        examples(0.5, 1, 2)?,
        examples(0.5, 0, 3)?,
        base.normalized(0.0, 2.0)?,
        base.limit(29, 0),
    ] {
        ids.push(run_id(&plan(same, &data)?, &model(&data, 4, 1)?, &data)?);
    }
    for (hidden, seed) in [(5, 1), (4, 2)] {
        ids.push(run_id(&plan(same, &base)?, &model(&base, hidden, seed)?, &base)?);
    }
    let changes: [&dyn Fn(DpSgd) -> DpSgd; 8] = [
        &|method| method.noise_multiplier(2.5),
        &|method| method.clip(0.3),
        &|method| method.batch_size(11),
        &|method| method.steps(4),
        &|method| method.learning_rate(0.3),
        &|method| method.weight_decay(0.1),
        &|method| method.seed(1),
        &|method| method.seed(2),
    ];
    for change in changes {
        ids.push(run_id(&plan(change, &base)?, &model(&base, 4, 1)?, &base)?);
    }
    for seed in [1, 2] {
        let plan = masked(&folder.path().join("a.mask"), seed)?;
        ids.push(run_id(&plan, &model(&base, 4, 1)?, &base)?);
    }
    let all = ids.len();
    let again = run_id(&plan(same, &base)?, &model(&base, 4, 1)?, &base)?;
    assert_eq!(again, ids[0], "equal inputs have one id");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all, "two inputs share an id");
    Ok(())
}
