//! Tests that kill a Lisp, configure a process or look at one from outside: each in a process of its own.

mod child;
mod death;
mod examples;
mod setup;
