//! A run that is stopped, killed, continued, put back and withdrawn, in any order, is
//! never charged for less than it released.

use proptest::prelude::*;

use super::*;
use crate::data;
use crate::methods::DpSgd;
use crate::privacy::Event;

const STEPS: u64 = 12;

/// Ending of a process that trains a run.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It is stopped or finished, and writes its last checkpoint.
    Stopped,
    /// The same with a full disk: the checkpoint from before stays in place.
    StoppedWithoutCheckpoint,
    /// It is killed after a checkpoint.
    Killed,
    /// It is killed before it writes one.
    KilledWithoutCheckpoint,
    /// Threads can't be started, or the device fails, before anything is released.
    Failed,
}

#[derive(Clone, Debug)]
enum Act {
    Train(u64, End),
    /// A copy of an earlier checkpoint takes the place of the last.
    PutBack(usize),
    /// The run is handed to another machine, and withdrawn before it resumes there.
    Withdrawn,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let end = prop_oneof![
        Just(End::Stopped),
        Just(End::StoppedWithoutCheckpoint),
        Just(End::Killed),
        Just(End::KilledWithoutCheckpoint),
        Just(End::Failed),
    ];
    let act = prop_oneof![
        4 => (0..=STEPS, end).prop_map(|(steps, end)| Act::Train(steps, end)),
        1 => any::<prop::sample::Index>().prop_map(|at| Act::PutBack(at.index(64))),
        1 => Just(Act::Withdrawn),
    ];
    prop::collection::vec(act, 1..12)
}

/// One run, its checkpoints, and the steps whose results somebody has seen.
struct World {
    plan: Plan,
    data: Dataset,
    ledger: Ledger,
    checkpoint: Option<CheckpointHeader>,
    earlier: Vec<CheckpointHeader>,
    released: u64,
}

impl World {
    fn new() -> Self {
        let data = data::glyphs_with(40, 4, 1).unwrap();
        let plan = DpSgd::new().noise_multiplier(1.0).batch_size(10).steps(STEPS);
        let plan = plan.plan(&data).unwrap();
        let ledger = Ledger::in_memory();
        Self { plan, data, ledger, checkpoint: None, earlier: Vec::new(), released: 0 }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Train(steps, end) => self.train(*steps, *end),
            Act::PutBack(at) if !self.earlier.is_empty() => {
                self.checkpoint = Some(self.earlier[at % self.earlier.len()].clone());
            }
            Act::PutBack(_) => {}
            Act::Withdrawn => self.withdraw(),
        }
        self.is_covered_in(&self.ledger);
    }

    fn train(&mut self, steps: u64, end: End) {
        let charge = match &self.checkpoint {
            Some(checkpoint) => {
                RunCharge::from_checkpoint(&self.ledger, &self.plan, checkpoint).unwrap()
            }
            None => RunCharge::new(&self.ledger, &self.plan, "00ff").unwrap(),
        };
        let from = self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.step);
        let header = |step, stopped| CheckpointHeader {
            attempt: charge.attempt_id().to_owned(),
            step,
            stopped,
            ..CheckpointHeader::default()
        };
        // Every run that is charged has a checkpoint of its beginning.
        let begun = self.checkpoint.clone().unwrap_or_else(|| header(0, false));
        charge.open(&self.data).unwrap();
        let to = match end {
            End::Failed => from,
            _ => (from + steps).min(STEPS),
        };
        let checkpoint = match end {
            End::Stopped => header(to, true),
            End::Killed => header(to, false),
            _ => begun,
        };
        match end {
            End::Stopped | End::StoppedWithoutCheckpoint => {
                charge.close(charge.chargeable_steps(to)).unwrap();
            }
            End::Failed => charge.close(charge.chargeable_steps(0)).unwrap(),
            End::Killed | End::KilledWithoutCheckpoint => {}
        }
        self.released = self.released.max(to);
        self.earlier.push(checkpoint.clone());
        self.checkpoint = Some(checkpoint);
    }

    fn withdraw(&mut self) {
        let Some(checkpoint) = &self.checkpoint else { return };
        let record = |entry: Option<Entry>| {
            entry.map_or(Ok(()), |entry| self.ledger.record(&at_home(entry))).unwrap();
        };
        let account = self.ledger.state().unwrap();
        // A run of which nobody knows how far it came is never withdrawn for nothing.
        let Some(resumed) = planned_entry(&account, &checkpoint.attempt, &self.plan, &self.data)
        else {
            return;
        };
        record(Some(resumed));
        let account = self.ledger.state().unwrap();
        record(closing_entry(&account, &checkpoint.attempt, &self.plan, &self.data, 0));
    }

    /// Checks that the run is charged for all that was released, and for no more than its plan.
    fn is_covered_in(&self, ledger: &Ledger) {
        let Some(checkpoint) = &self.checkpoint else { return };
        let account = ledger.state().unwrap();
        let charge = account.charge_of(&checkpoint.attempt).expect("it is charged");
        let released = self.plan.event_after(self.released);
        assert!(
            charge.event.reduced_to(&released).is_ok(),
            "released {released}, charged {}",
            charge.event
        );
        assert!(self.plan.event().reduced_to(&charge.event).is_ok(), "{}", charge.event);
    }
}

/// Creates an entry for the ledger in memory, which has another name than that of the data.
fn at_home(entry: Entry) -> Entry {
    Entry { data_hash: "in-memory".into(), ..entry }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_charge_is_never_below_what_was_released(acts in acts()) {
        let mut world = World::new();
        acts.iter().for_each(|act| world.act(act));
    }
}

#[test]
fn a_resumed_run_that_fails_keeps_its_charge() {
    let mut world = World::new();
    world.act(&Act::Train(7, End::Stopped));
    let charged = world.ledger.events().unwrap();
    world.act(&Act::Train(3, End::Failed));
    assert_eq!(world.ledger.events().unwrap(), charged);
    world.act(&Act::Withdrawn);
    assert_eq!(world.ledger.events().unwrap(), charged);
    let account = world.ledger.state().unwrap();
    let words = &account.charges()[0].closing_note;
    assert!(words.starts_with("not fewer than before the run was resumed"), "{words}");
}

#[test]
fn an_older_checkpoint_counts_as_killed() {
    let mut world = World::new();
    world.act(&Act::Train(2, End::Stopped));
    world.act(&Act::Train(5, End::StoppedWithoutCheckpoint));
    assert_eq!(world.ledger.events().unwrap(), [world.plan.event_after(7)]);
    let checkpoint = world.checkpoint.as_ref().unwrap();
    let charge = RunCharge::from_checkpoint(&world.ledger, &world.plan, checkpoint).unwrap();
    assert!(charge.is_behind());
    assert_eq!(charge.chargeable_steps(3), STEPS);
    world.act(&Act::PutBack(0));
    world.act(&Act::Train(1, End::Stopped));
    assert_eq!(world.ledger.events().unwrap(), [world.plan.event()]);
}

/// The correction of an old file, which forgot what was released before the run was resumed.
#[test]
fn entries_that_forgot_are_read_with_what_they_forgot() {
    let ledger = Ledger::in_memory();
    let event = |steps| Event::poisson(0.1, 1.0, steps);
    ledger.begin_run("run", &event(4000)).unwrap();
    ledger.close_run("run", &event(210)).unwrap();
    ledger.record(&Entry::resumed("run", ledger.data_hash(), &event(4000))).unwrap();
    ledger.close_run("run", &event(1)).unwrap();
    assert_eq!(ledger.events().unwrap(), [event(210)]);
}
