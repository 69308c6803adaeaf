//! Keeps the time of a program that runs in a simulated world.
