//! Kernels that tests share. Starting one takes seconds, and `:clear` makes it as good as new.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use super::client::{Client, Start};
use super::{run, scratch, text};

/// Kernels that may work at once. Each compiles cells, so more would wait for one another.
const AT_ONCE: usize = 2;

/// Shared kernels that no test uses at the moment.
static IDLE: Mutex<Vec<Client>> = Mutex::new(Vec::new());

static FREE: (Mutex<usize>, Condvar) = (Mutex::new(AT_ONCE), Condvar::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to let some kernels work.
pub struct Turns(usize);

/// Waits until this test may let `count` kernels work. A test that needs several takes all its
/// turns together, or two such tests would wait for one another. The library for cells is there
/// then.
pub fn turns(count: usize) -> Turns {
    build_lab();
    let count = count.min(AT_ONCE);
    let (free, changed) = &FREE;
    let mut free = lock(free);
    while *free < count {
        free = changed.wait(free).unwrap_or_else(PoisonError::into_inner);
    }
    *free -= count;
    Turns(count)
}

impl Drop for Turns {
    fn drop(&mut self) {
        *lock(&FREE.0) += self.0;
        FREE.1.notify_all();
    }
}

/// A shared kernel, for as long as one test uses it. It has no variables, functions and imports.
/// Cells have been run in it, its project has runs, and its cells are shown in the usual form.
pub struct Session {
    client: Option<Client>,
    _turn: Turns,
}

/// A shared kernel. A test that panics keeps it, since nobody knows in which state it is.
pub fn session() -> Session {
    let turn = turns(1);
    let idle = lock(&IDLE).pop();
    let cleared = idle.and_then(|mut client| client.run(":clear").ok().then_some(client));
    let client = cleared.unwrap_or_else(|| Client::start_beside(Start::default()));
    Session { client: Some(client), _turn: turn }
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client.as_ref().expect("there until the end")
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Client {
        self.client.as_mut().expect("there until the end")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            lock(&IDLE).extend(self.client.take());
        }
    }
}

/// Ends the shared kernels: they remove their folders.
pub fn end_kernels() {
    let ids: Vec<i32> = lock(&IDLE).iter().map(|client| client.child.id().cast_signed()).collect();
    for id in &ids {
        // SAFETY: a signal to a child of this process that nobody has waited for.
        unsafe { libc::kill(*id, libc::SIGTERM) };
    }
    for id in ids {
        let has_ended = || {
            // SAFETY: the status is not asked for.
            unsafe { libc::waitpid(id, std::ptr::null_mut(), libc::WNOHANG) != 0 }
        };
        for _ in 0..3000 {
            if has_ended() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Builds the library for cells, unless it is there, so that no command says later that it does.
fn build_lab() {
    static BUILT: Once = Once::new();
    BUILT.call_once_force(|_| {
        let built = run(scratch(), &["install", "--prefix", "installed", "--name", "built"]);
        assert!(built.status.success(), "{}", text(&built.stderr));
    });
}
