#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    hoptax_fuzz::grpc::holds(input);
});
