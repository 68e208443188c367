//! Non-blocking collectives: schedules compiled from a table of algorithms, run step by step.
