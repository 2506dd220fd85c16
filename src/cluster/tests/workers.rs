//! Tests of workers: refusals, reports to the submitter, and two workers at one ticket.

use super::*;

#[test]
fn a_task_that_is_stopped_before_its_first_step_names_the_time_limit() {
    let lab = Lab::new(113);
    lab.submit().unwrap();
    let (_, tickets, ..) = lab.batch_system.submissions.borrow()[0].clone();
    let worked = worker::work_until(&tickets, 0, &|| true).unwrap();
    assert!(worked.interrupted && worked.trained == 0, "{worked:?}");
    lab.batch_system.queue.borrow_mut().clear();
    let status = lab.on(|site| site.status()).unwrap();
    assert_eq!(status.failed(), 2, "{status:?}");
    let errors = status.errors();
    let (error, _) = &errors[0];
    assert!(error.contains("before its first step") && error.contains("--time"), "{error}");
    // A task that has trained a run says nothing of the kind.
    let calls = std::cell::Cell::new(0);
    let second = || calls.replace(calls.get() + 1) > 0;
    let worked = worker::work_until(&tickets, 1, &second).unwrap();
    assert_eq!((worked.interrupted, worked.trained), (true, 1));
    assert_eq!(lab.on(|site| site.status()).unwrap().failed(), 2);
    // The failed runs are submitted again with all others.
    lab.submit().unwrap();
    lab.run(99);
    lab.is_complete();
}

#[test]
fn other_data_other_versions_and_unknown_tasks_train_nothing() {
    let lab = Lab::new(104);
    lab.submit().unwrap();
    let data = lab.grid_folder().join("data.safetensors");
    let mut bytes = std::fs::read(&data).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&data, bytes).unwrap();
    let (_, tickets, ..) = lab.batch_system.submissions.borrow()[0].clone();
    assert!(run_worker(&tickets, 4711).unwrap_err().to_string().contains("--index = 4711"));
    let errors = lab.run(99);
    assert!(errors.iter().all(|e| e.as_ref().unwrap_err().to_string().contains("SHA-256")));
    let status = lab.on(|site| site.status()).unwrap();
    assert_eq!((status.failed(), status.errors().len()), (12, 1), "{status}");
    assert!(
        matches!(&status.runs[0].1, RunStatus::Failed(why) if why.contains("other than those charged"))
    );
    assert_eq!(lab.submit().unwrap().runs, 12);
    assert_eq!(lab.charges().len(), 12, "nobody had begun, and nothing is charged again");

    let (_, tickets, ..) = lab.batch_system.submissions.borrow().last().unwrap().clone();
    let text = std::fs::read_to_string(&tickets).unwrap();
    let this = format!("\"lab\":\"{}\"", program::numerics());
    std::fs::write(&tickets, text.replacen(&this, "\"lab\":\"0.0.1\"", 1)).unwrap();
    let error = run_worker(&tickets, 0).unwrap_err();
    assert!(error.to_string().contains("tickets of version 0.0.1"), "{error}");
    // A ticket whose plan was edited is not what was charged.
    let edited = text.replacen("\"steps\":3", "\"steps\":4", 1);
    assert_ne!(edited, text);
    std::fs::write(&tickets, edited).unwrap();
    let worked = run_worker(&tickets, 0).unwrap();
    assert!(worked.errors[0].to_string().contains("differ from those of the charged run"));
    std::fs::write(&tickets, text).unwrap();
    lab.run(99);
    lab.is_complete();
}

#[test]
fn unreadable_claims_close_no_charge_and_start_no_run() {
    let lab = Lab::new(109);
    lab.submit().unwrap();
    let charged = lab.charged();
    let claims = lab.grid_folder().join("claims");
    std::fs::remove_dir(&claims).unwrap();
    std::fs::write(&claims, "").unwrap();
    let (_, tickets, ..) = lab.batch_system.submissions.borrow()[0].clone();
    let worked = run_worker(&tickets, 0).unwrap();
    assert_eq!(worked.trained, 0, "the ticket may have been withdrawn");
    assert!(worked.errors.iter().all(|error| error.kind() == ErrorKind::Io), "{worked:?}");
    assert_eq!(lab.on(|site| site.cancel()).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(lab.charged(), charged, "whoever may have begun stays charged");
}

#[test]
fn a_second_worker_replaces_nothing_and_other_bits_are_charged() {
    let lab = Lab::new(106);
    lab.submit().unwrap();
    lab.run(99);
    let ticket = &lab.tickets()[0];
    let model = models::mlp(&lab.data, &[8]).seed(ticket.seed).build().unwrap();
    let second = || {
        let aside =
            lab.grid_folder().join("aside").join(format!("{}.1-h-0badcafe", ticket.attempt));
        let grant = PrechargedAttempt { inexact_repeat: false, conflict_path: &aside };
        let claim = Claim::Granted(&ticket.attempt);
        let (id, plan) = (&ticket.id, &ticket.plan);
        let fit = Fit { id, plan, model: &model, data: &lab.data, claim };
        train_precharged(&lab.store(), &grant, fit, &mut NoopObserver)
    };
    assert_eq!(second().unwrap(), PrechargedOutcome::AlreadyStored, "bit for bit the same");
    assert_eq!(lab.charges().len(), 12);
    // As if the first had been rounded differently.
    let stored = lab.store().run_dir(&ticket.id);
    let result = stored.join("result.json");
    let before = std::fs::read_to_string(&result).unwrap();
    let model_file = std::fs::read(stored.join("model.safetensors")).unwrap();
    let mut other = model_file.clone();
    *other.last_mut().unwrap() ^= 1;
    std::fs::write(stored.join("model.safetensors"), &other).unwrap();
    assert_eq!(second().unwrap(), PrechargedOutcome::Conflicting);
    assert_eq!(std::fs::read(stored.join("model.safetensors")).unwrap(), other, "not replaced");
    std::fs::write(stored.join("model.safetensors"), model_file).unwrap();
    assert_eq!(std::fs::read_to_string(result).unwrap(), before);
    let result = lab.collect().unwrap();
    assert_eq!((result.runs(), lab.charged()), (15, 13), "the second release is charged");
    assert!(lab.charges().iter().any(|charge| charge.run.ends_with("-0badcafe")));
    lab.collect().unwrap();
    assert_eq!(lab.charged(), 13, "once");
}
