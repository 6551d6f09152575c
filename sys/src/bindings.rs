pub const STEELBANK_ABI: u32 = 2;
pub const STEELBANK_STATUS_ANSWERED: steelbank_status = 0;
pub const STEELBANK_STATUS_FAULT: steelbank_status = 1;
pub const STEELBANK_STATUS_INTERRUPTED: steelbank_status = 2;
pub const STEELBANK_STATUS_MISUSE: steelbank_status = 3;
pub type steelbank_status = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct steelbank_text {
    pub octets: *const u8,
    pub length: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of steelbank_text"][::std::mem::size_of::<steelbank_text>() - 16usize];
    ["Alignment of steelbank_text"][::std::mem::align_of::<steelbank_text>() - 8usize];
    ["Offset of field: steelbank_text::octets"][::std::mem::offset_of!(steelbank_text, octets) - 0usize];
    ["Offset of field: steelbank_text::length"][::std::mem::offset_of!(steelbank_text, length) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct steelbank_entry_points {
    pub abi: u32,
    pub ping: ::std::option::Option<unsafe extern "C" fn(number: i64) -> i64>,
    pub call: ::std::option::Option<
        unsafe extern "C" fn(
            call: u64,
            question: *const steelbank_text,
            arguments: *const steelbank_text,
        ) -> i64,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of steelbank_entry_points"][::std::mem::size_of::<steelbank_entry_points>() - 24usize];
    ["Alignment of steelbank_entry_points"][::std::mem::align_of::<steelbank_entry_points>() - 8usize];
    ["Offset of field: steelbank_entry_points::abi"]
        [::std::mem::offset_of!(steelbank_entry_points, abi) - 0usize];
    ["Offset of field: steelbank_entry_points::ping"]
        [::std::mem::offset_of!(steelbank_entry_points, ping) - 8usize];
    ["Offset of field: steelbank_entry_points::call"]
        [::std::mem::offset_of!(steelbank_entry_points, call) - 16usize];
};
pub const STEELBANK_COMMAND_INTERRUPT: steelbank_command = 1;
pub const STEELBANK_COMMAND_START_THREAD: steelbank_command = 2;
pub const STEELBANK_COMMAND_END: steelbank_command = 3;
pub type steelbank_command = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct steelbank_order {
    pub command: i64,
    pub argument: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of steelbank_order"][::std::mem::size_of::<steelbank_order>() - 16usize];
    ["Alignment of steelbank_order"][::std::mem::align_of::<steelbank_order>() - 8usize];
    ["Offset of field: steelbank_order::command"][::std::mem::offset_of!(steelbank_order, command) - 0usize];
    ["Offset of field: steelbank_order::argument"]
        [::std::mem::offset_of!(steelbank_order, argument) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct steelbank_host {
    pub serve:
        ::std::option::Option<unsafe extern "C" fn(entry_points: *const steelbank_entry_points, lane: u64)>,
    pub supervise: ::std::option::Option<unsafe extern "C" fn(order: *mut steelbank_order)>,
    pub answer: ::std::option::Option<unsafe extern "C" fn(octets: *const u8, length: usize)>,
    pub output: ::std::option::Option<unsafe extern "C" fn(octets: *const u8, length: usize, dropped: u64)>,
    pub progress: ::std::option::Option<unsafe extern "C" fn(octets: *const u8, length: usize)>,
    pub report: ::std::option::Option<unsafe extern "C" fn(octets: *const u8, length: usize)>,
    pub contribs:
        ::std::option::Option<unsafe extern "C" fn(buffer: *mut ::std::os::raw::c_char, size: usize) -> i64>,
    pub died: ::std::option::Option<
        unsafe extern "C" fn(status: ::std::os::raw::c_int, reason: *const ::std::os::raw::c_char),
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of steelbank_host"][::std::mem::size_of::<steelbank_host>() - 64usize];
    ["Alignment of steelbank_host"][::std::mem::align_of::<steelbank_host>() - 8usize];
    ["Offset of field: steelbank_host::serve"][::std::mem::offset_of!(steelbank_host, serve) - 0usize];
    ["Offset of field: steelbank_host::supervise"]
        [::std::mem::offset_of!(steelbank_host, supervise) - 8usize];
    ["Offset of field: steelbank_host::answer"][::std::mem::offset_of!(steelbank_host, answer) - 16usize];
    ["Offset of field: steelbank_host::output"][::std::mem::offset_of!(steelbank_host, output) - 24usize];
    ["Offset of field: steelbank_host::progress"][::std::mem::offset_of!(steelbank_host, progress) - 32usize];
    ["Offset of field: steelbank_host::report"][::std::mem::offset_of!(steelbank_host, report) - 40usize];
    ["Offset of field: steelbank_host::contribs"][::std::mem::offset_of!(steelbank_host, contribs) - 48usize];
    ["Offset of field: steelbank_host::died"][::std::mem::offset_of!(steelbank_host, died) - 56usize];
};
