//! What a card does, done the same way on the CPU: each check takes the device as a parameter.

mod data;
