//! Lets a test say when the code of a cell continues, so that neither relies on time.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use super::wait_for;

/// A place where code waits.
pub struct Gate(TcpListener);

/// Code that waits at a gate.
pub struct Waiting(TcpStream);

impl Gate {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("set");
        Self(listener)
    }

    /// Rust code that waits here. No interrupt ends the wait.
    pub fn code(&self) -> String {
        format!("{{ {} }}", self.statements())
    }

    /// The same without a block of its own: the connection lasts as long as the code around it.
    pub fn statements(&self) -> String {
        let address = self.0.local_addr().expect("bound").to_string();
        format!(
            "let mut gate = std::net::TcpStream::connect({address:?}).unwrap();\n\
             std::io::Read::read_exact(&mut gate, &mut [0]).unwrap();\n"
        )
    }

    /// Waits until code waits here. Listen to the cell first: a message may lie in this process
    /// until its sockets are read.
    pub fn reached(&self) -> Waiting {
        let stream = wait_for("code at the gate", || match self.0.accept() {
            Ok((stream, _)) => Some(stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        });
        stream.set_nonblocking(false).expect("set");
        Waiting(stream)
    }

    /// Lets code continue as soon as it waits here.
    pub fn open(&self) -> Waiting {
        let mut code = self.reached();
        code.go_on();
        code
    }
}

impl Waiting {
    pub fn go_on(&mut self) {
        self.0.write_all(&[1]).expect("sent");
    }

    /// Waits until the connection ends: with the code around it, or with its process.
    pub fn wait_for_end(mut self) {
        let ended = self.0.read(&mut [0]);
        assert!(!matches!(ended, Ok(1)), "nothing is sent");
    }
}
