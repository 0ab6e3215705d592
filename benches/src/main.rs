fn main() { spawner::run_if_asked(); }
