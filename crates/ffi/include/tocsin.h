/*
 * tocsin.h: C interface of tocsin, communication whose messages progress by interrupt.
 *
 * - A function returns TOCSIN_OK (0) or one of the TOCSIN_ERROR_ codes. tocsin_strerror names the code;
 *   tocsin_last_error says what was wrong in this thread's last failing call, and what to do.
 * - A call's comment ends with its errors, without TOCSIN_ERROR_ and without those that are the same for all calls:
 *   ARGUMENT for NULL where something is needed, for values and sizes that do not fit, and in a child of fork();
 *   FINALIZED after tocsin_finalize; ABORTED after any rank's tocsin_abort; SYSTEM when the system refuses something;
 *   THREAD in the function of an operator; INTERNAL for a mistake of the library. One of these is listed where it has
 *   one more reason. A call that starts an operation lists what it returns itself; what the operation ends with,
 *   tocsin_wait lists; a call that waits returns either. In that child and after tocsin_finalize, what only asks (a
 *   rank, a size, statistics, whether something is done), tocsin_progress and tocsin_comm_revoke do nothing and succeed.
 * - A pointer is NULL or valid. NULL where something is needed is an error; where it may be NULL, it is said so.
 *   Outputs are written on success only, but for: handles and memory that the call was to give, which may be NULL
 *   after a failure (the handle of a request is); flags, positions and counts of waits and tests, which say what is
 *   over, well or not; a status, which a failed operation fills as far as it is known; and what is received into.
 * - A handle is freed by the call that takes its address (wait, test, finalize, ..._free), which also sets it to NULL.
 *   Freeing NULL does nothing. A persistent request (..._init) is freed by tocsin_request_free alone: waits and tests
 *   leave it, to be started again.
 * - A buffer belongs to the library from the call that starts an operation to the operation's completion. Waiting, or
 *   a test that says so, is completion; freeing a request is not: its buffer must outlive the operation.
 * - Handles of communicators may be used by several threads at once; one request by one thread at a time; a world only
 *   by the thread that made it.
 * - No function may be called from a signal handler. No Rust panic crosses this interface: it becomes
 *   TOCSIN_ERROR_INTERNAL. A C++ exception must not leave a callback: it ends the process.
 * - While a world exists, the thread that made it is interrupted by a signal (SIGURG, unless TOCSIN_SIGNAL says
 *   otherwise); interrupted system calls are restarted where the kernel allows it.
 * - A signal handler that may interrupt the library, or an interrupt's work, must return: leaving it by siglongjmp (or
 *   longjmp, or an exception) leaves the rank unusable. Block the signal, or note it and jump from ordinary code.
 */


#ifndef TOCSIN_H
#define TOCSIN_H

/* Written by cbindgen from crates/ffi/src; change that, then: BLESS=1 cargo test -p tocsin-ffi --test header */

#include <stddef.h>
#include <stdint.h>

// Success.
#define TOCSIN_OK 0

// An argument is NULL, out of range or does not fit the others.
#define TOCSIN_ERROR_ARGUMENT 1

// A rank or root that the communicator does not have.
#define TOCSIN_ERROR_RANK 2

// A negative tag.
#define TOCSIN_ERROR_TAG 3

// An operator or element type that does not exist, or the two do not go together.
#define TOCSIN_ERROR_OPERATOR 4

// No algorithm of that name.
#define TOCSIN_ERROR_ALGORITHM 5

// An environment variable TOCSIN_* is wrong, or names a backend that this machine cannot run.
#define TOCSIN_ERROR_ENVIRONMENT 6

// The message was longer than the buffer.
#define TOCSIN_ERROR_TRUNCATED 7

// A rank that the operation needs died.
#define TOCSIN_ERROR_PEER_DEAD 8

// A rank that the operation needs has finalized, or will never receive the message, because it leaves or has freed the communicator and has no request there.
#define TOCSIN_ERROR_PEER_FINALIZED 9

// The request was cancelled.
#define TOCSIN_ERROR_CANCELLED 10

// The communicator was revoked.
#define TOCSIN_ERROR_REVOKED 11

// A peer called another collective than this rank, or wrote what is no message.
#define TOCSIN_ERROR_PROTOCOL 12

// Too many messages that nobody receives.
#define TOCSIN_ERROR_UNEXPECTED 13

// Some rank called tocsin_abort.
#define TOCSIN_ERROR_ABORTED 14

// The rank has finalized.
#define TOCSIN_ERROR_FINALIZED 15

// The call is not allowed on this thread, or in the function of an operator.
#define TOCSIN_ERROR_THREAD 16

// The world could not be joined.
#define TOCSIN_ERROR_BOOTSTRAP 17

// The system refused memory, descriptors or a call.
#define TOCSIN_ERROR_SYSTEM 18

// An operator or a rank's body failed.
#define TOCSIN_ERROR_USER 19

// A mistake in tocsin itself: please report it.
#define TOCSIN_ERROR_INTERNAL 20

// As the color of tocsin_comm_split: this rank gets no communicator.
#define TOCSIN_UNDEFINED -1

// Receive from whichever rank.
// When all other ranks of the communicator have left, such a receive or probe meets what this rank has sent itself before; if there is no such message it is refused (PEER_FINALIZED).
#define TOCSIN_ANY_SOURCE -1

// A rank that is none, as the neighbour beyond the edge of a grid: what is sent to it is sent at once and goes nowhere; a receive from it is complete at once, leaves its buffer as it is, and has
// a status with this source, tag -1 and 0 bytes; a probe finds that. In point-to-point calls only, those of tocsin_send_init and tocsin_recv_init too; no collective has it as its root.
#define TOCSIN_PROC_NULL -1000

// Receive whichever tag.
#define TOCSIN_ANY_TAG -1

// int8_t
#define TOCSIN_INT8 1

// int16_t
#define TOCSIN_INT16 2

// int32_t
#define TOCSIN_INT32 3

// int64_t
#define TOCSIN_INT64 4

// uint8_t
#define TOCSIN_UINT8 5

// uint16_t
#define TOCSIN_UINT16 6

// uint32_t
#define TOCSIN_UINT32 7

// uint64_t
#define TOCSIN_UINT64 8

// float
#define TOCSIN_FLOAT 9

// double
#define TOCSIN_DOUBLE 10

// Bytes, for the bitwise operators.
#define TOCSIN_BYTE 11

// struct { int32_t value; int32_t index; }, for TOCSIN_MINLOC and TOCSIN_MAXLOC.
#define TOCSIN_INT32_INDEX 12

// struct { float value; int32_t index; }
#define TOCSIN_FLOAT_INDEX 13

// struct { int64_t value; int32_t index; uint32_t unused; }
#define TOCSIN_INT64_INDEX 14

// struct { double value; int32_t index; uint32_t unused; }
#define TOCSIN_DOUBLE_INDEX 15

// IEEE binary16, as _Float16: two bytes. A sum or product of two is computed as float and rounded. Libraries that were built without
// the feature `half` of the crate tocsin-ffi, which is there by default, refuse it (OPERATOR).
#define TOCSIN_FLOAT16 16

// The upper half of a float, as __bf16: two bytes. Otherwise as TOCSIN_FLOAT16.
#define TOCSIN_BFLOAT16 17

// Sum. Of integers it wraps.
#define TOCSIN_SUM 1

// Product. Of integers it wraps.
#define TOCSIN_PROD 2

// Minimum. Of floats the left operand if either is a NaN, so that the order in which they are combined decides.
#define TOCSIN_MIN 3

// Maximum. Of floats as TOCSIN_MIN.
#define TOCSIN_MAX 4

// Minimum and its index.
#define TOCSIN_MINLOC 5

// Maximum and its index.
#define TOCSIN_MAXLOC 6

// Logical and.
#define TOCSIN_LAND 7

// Logical or.
#define TOCSIN_LOR 8

// Logical exclusive or.
#define TOCSIN_LXOR 9

// Bitwise and.
#define TOCSIN_BAND 10

// Bitwise or.
#define TOCSIN_BOR 11

// Bitwise exclusive or.
#define TOCSIN_BXOR 12

// A group of ranks whose messages match only each other's.
typedef struct tocsin_comm tocsin_comm;

// A message that a probe took out of matching.
typedef struct tocsin_message tocsin_message;

// An operation in flight.
typedef struct tocsin_request tocsin_request;

// This process's membership of a world.
typedef struct tocsin_world tocsin_world;

// What the engine of one rank has done so far.
typedef struct {
  // Times that the rank's computation was interrupted.
  uint64_t interrupts;
  // Time taken from the computation by interrupts, in nanoseconds.
  uint64_t stolen_ns;
  // Passes of the engine, by whomever.
  uint64_t passes;
  // Interrupts that found the engine busy and left the work to its user.
  uint64_t deferrals;
  // Times that interrupts were held back so that the rank could compute.
  uint64_t throttles;
  // Packets sent.
  uint64_t packets_sent;
  // Packets received.
  uint64_t packets_received;
  // Bytes of payload sent.
  uint64_t bytes_sent;
  // Bytes of payload received.
  uint64_t bytes_received;
  // Bytes copied inside library calls.
  uint64_t bytes_copied_user;
  // Bytes copied inside interrupts.
  uint64_t bytes_copied_handler;
  // Bytes copied by the progress thread.
  uint64_t bytes_copied_progress;
} tocsin_statistics;

// What a completed operation says.
typedef struct {
  // Rank of the sender (receives and probes), or TOCSIN_PROC_NULL.
  int source;
  // Tag of the message; -1 from TOCSIN_PROC_NULL.
  int tag;
  // TOCSIN_OK, or why the operation failed.
  int error;
  // Bytes received, or sent; those of the whole message where TOCSIN_ERROR_TRUNCATED says that it was longer than the buffer.
  size_t bytes;
} tocsin_status;

// What runs when an operation is complete: on some thread of the process, never inside an interrupt. It gets the
// argument given with it and the operation's status, valid during the call.
typedef void (*tocsin_callback)(void *argument, const tocsin_status *status);

// out[i] = left[i] op right[i] for `count` elements. `out` is exactly `left`, exactly `right`, or apart from both; the
// elements may be unaligned. It runs outside interrupts, on any thread of the process, must be associative and must
// not call this library: what is more than to abort, to ask for a rank, a size or whether a request is done, or to
// create or free an operator answers TOCSIN_ERROR_THREAD there.
typedef void (*tocsin_function)(void *context,
                                const void *left,
                                const void *right,
                                void *out,
                                size_t count);

// A block of `count` pieces of `length` bytes each, whose starts lie `stride` bytes apart, the first of them `offset` bytes
// after the start of the buffer: MPI_Type_vector. `stride` is at least `length`; one run of bytes is one piece.
typedef struct {
  size_t offset;
  size_t count;
  size_t length;
  size_t stride;
} tocsin_strided;

// What one rank runs. The communicator is valid during the call and must not be freed. 0 is success.
typedef int (*tocsin_body)(tocsin_comm *comm, void *argument);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// A few words for a status code, never NULL. For what exactly was wrong see tocsin_last_error.
const char *tocsin_strerror(int code);

// What was wrong in the last failing call of this thread, and what to do; "" if none failed. Never NULL. Valid until
// the next failing call of the same thread.
const char *tocsin_last_error(void);

// The library's version, as in "0.1.0".
const char *tocsin_version(void);

// Joins the world that `tocsin run` made; started alone, makes a world of one rank. From here to tocsin_finalize the
// calling thread is the one that messages interrupt. Reads the environment variables TOCSIN_*.
// Errors: ENVIRONMENT, BOOTSTRAP.
int tocsin_init(tocsin_world **world);

// The rank of this process in the world.
// Errors: THREAD.
int tocsin_world_rank(const tocsin_world *world, int *rank);

// The number of ranks of the world.
// Errors: THREAD.
int tocsin_world_size(const tocsin_world *world, int *size);

// The communicator of all ranks of the world; to be freed by tocsin_comm_free.
// Errors: THREAD.
int tocsin_world_comm(const tocsin_world *world, tocsin_comm **comm);

// Sends what is pending, leaves the world and sets the handle to NULL. Communicators may be freed later. A process that ends
// without it is dead to the others, whatever its exit status. TOCSIN_ERROR_PEER_FINALIZED when something is left that is sent to ranks that
// have finalized, or do so, too, and have no receive for it, this one included: this rank has left then. A request that says so already, whoever has it, is not said again.
// Errors: THREAD, PEER_FINALIZED.
int tocsin_finalize(tocsin_world **world);

// Writes the statistics of this rank. `bytes` is sizeof(tocsin_statistics) as the program was compiled: a later
// library may know more of them, and writes no more than that.
// Errors: none of its own.
int tocsin_comm_statistics(const tocsin_comm *comm,
                           tocsin_statistics *statistics,
                           size_t bytes);

// The rank of the caller in the communicator.
// Errors: none of its own.
int tocsin_comm_rank(const tocsin_comm *comm, int *rank);

// The number of ranks of the communicator.
// Errors: none of its own.
int tocsin_comm_size(const tocsin_comm *comm, int *size);

// How this rank is notified: "uintr", "signal", "thread" or "poll"; "" for NULL.
const char *tocsin_comm_backend(const tocsin_comm *comm);

// A communicator of the same ranks with messages of its own. All ranks call it; it waits for them.
// Errors: those that a collective ends with (tocsin_wait); ARGUMENT also when all communicators that there can be were made.
int tocsin_comm_dup(const tocsin_comm *comm,
                    tocsin_comm **duplicate);

// A communicator of the ranks that pass the same color, ordered by key, then by rank. With the color TOCSIN_UNDEFINED
// `part` becomes NULL. All ranks call it; it waits for them.
// Errors: as tocsin_comm_dup.
int tocsin_comm_split(const tocsin_comm *comm,
                      int color,
                      int key,
                      tocsin_comm **part);

// Makes every pending and later operation of the communicator fail, on all its ranks.
// Errors: none of its own.
int tocsin_comm_revoke(const tocsin_comm *comm);

// Makes progress once. Never needed where messages interrupt; programs for the backend "poll" may want it. Who calls it in vain again and again, on a core that ranks share, gives that away, as in
// tocsin_test.
// Errors: none of its own.
int tocsin_progress(const tocsin_comm *comm);

// Ends every rank of the world; `tocsin run` returns the low eight bits of `code`, or 1 where they are 0. In a child of fork() it ends that child
// alone. Returns only if comm is NULL.
// Errors: none of its own.
int tocsin_abort(const tocsin_comm *comm,
                 int code);

// Frees the handle and sets it to NULL. Requests that it started go on.
// Errors: none of its own.
int tocsin_comm_free(tocsin_comm **comm);

// Allocates `bytes` bytes of zeros, on a page's boundary, in memory that all ranks of the node map. Messages from and to it are
// copied once, by either rank and without the kernel, or twice, up to 256 KiB where both ranks wait; twice, too, from another buffer into it where processes cannot reach each
// other's buffers otherwise (`tocsin info`: neither `cma` nor `xpmem`). All else about it is as with any buffer. To be freed by tocsin_free, also
// after tocsin_finalize. The environment variable TOCSIN_HEAP bounds what a rank may allocate.
// Errors: SYSTEM also when the world has no such memory, or this rank's part of it no such piece.
int tocsin_alloc(const tocsin_comm *comm,
                 size_t bytes,
                 void **buffer);

// Frees a buffer of tocsin_alloc and sets the pointer to NULL; does nothing if it is. No request may be using it.
// Errors: ARGUMENT also for what is no buffer of tocsin_alloc, or was freed.
int tocsin_free(void **buffer);

// Looks whether the operation is complete. If it is, `done` becomes 1, the request is freed and set to NULL, or inactive if
// it is persistent, the operation's own error is returned, and `status`, unless NULL, is written. A NULL request is
// complete; so is a persistent one that is not active, here and below. Does not wait; but where ranks share cores, who tests in vain again and again, and computes
// nothing in between, gives its core away, here and in all calls that only look.
// Errors: as tocsin_wait.
int tocsin_test(tocsin_request **request,
                int *done,
                tocsin_status *status);

// Looks whether the operation is complete, for who computes and looks at it between: `done` becomes 1 or 0. Does not wait
// and runs no callback; a few loads, but the first time that it is pending: from then on its message, or a small
// collective's last part, interrupts this rank, as collectives' messages that others depend on always do. Makes no progress itself: with the
// backend poll, tocsin_test does. Frees nothing: tocsin_wait or tocsin_test does. A NULL request is complete. Who only asks, on a core that ranks share, gives that away, as in tocsin_test.
// Errors: none of its own.
int tocsin_is_done(const tocsin_request *request,
                   int *done);

// Waits until the operation is complete, frees the request and sets it to NULL; a persistent one becomes inactive instead.
// Returns the operation's own error. `status` may be NULL. A NULL request is complete.
// Errors: those that the operation ends with. A send: PEER_DEAD, PEER_FINALIZED, REVOKED, PROTOCOL, UNEXPECTED. A receive: these,
// TRUNCATED, and CANCELLED after tocsin_cancel. A collective: those of a send, CANCELLED,
// USER and SYSTEM. CANCELLED is then that another rank gave it up; PROTOCOL also that its ranks called different ones, USER that the
// operator of a rank in Rust panicked, SYSTEM also that a rank was refused memory: in this one, or in an earlier one of its communicator.
int tocsin_wait(tocsin_request **request,
                tocsin_status *status);

// As tocsin_wait, but no longer than `nanoseconds`; then `done` is 0 and the request goes on.
// Errors: as tocsin_wait.
int tocsin_wait_timeout(tocsin_request **request,
                        uint64_t nanoseconds,
                        int *done,
                        tocsin_status *status);

// Waits until all `count` requests are complete, and ends each as tocsin_wait does. NULL requests are complete. With
// `statuses` (may be NULL) each request's own error is in its status. Returns the error of the first that failed.
// Errors: as tocsin_wait; ARGUMENT also for a request that is in the array twice, but for a send's that was over when it was posted, whose handle is not its own.
int tocsin_waitall(size_t count,
                   tocsin_request **requests,
                   tocsin_status *statuses);

// Waits until one of the requests is complete, writes its position into `index` and ends it as tocsin_wait does. Returns
// that operation's own error. If all are NULL or inactive, `index` becomes -1 at once. `status` may be NULL.
// Errors: as tocsin_wait; ARGUMENT also for a request that is in the array twice, as in tocsin_waitall.
int tocsin_waitany(size_t count,
                   tocsin_request **requests,
                   ptrdiff_t *index,
                   tocsin_status *status);

// Looks whether all `count` requests are complete: `done` becomes 1, and each is ended as tocsin_waitall does, with that call's results; or 0, and none is.
// Errors: as tocsin_waitall.
int tocsin_testall(size_t count,
                   tocsin_request **requests,
                   int *done,
                   tocsin_status *statuses);

// Looks whether one of the requests is complete: `done` becomes 1, `index` its position, and it is ended as tocsin_wait does; or 0 and -1. If all are NULL or inactive,
// `done` is 1 and `index` -1. `status` may be NULL.
// Errors: as tocsin_waitany.
int tocsin_testany(size_t count,
                   tocsin_request **requests,
                   int *done,
                   ptrdiff_t *index,
                   tocsin_status *status);

// Waits until some of the requests are complete, and ends all that are as tocsin_wait does: `completed` becomes how many; their positions are the first so many of
// `indices`, their statuses the first of `statuses` (may be NULL). Both have room for `count`. If all are NULL or inactive, `completed` becomes -1 at once. Returns the error of the first of
// them that failed.
// Errors: as tocsin_waitany.
int tocsin_waitsome(size_t count,
                    tocsin_request **requests,
                    ptrdiff_t *completed,
                    size_t *indices,
                    tocsin_status *statuses);

// As tocsin_waitsome, without waiting: `completed` is 0 when none is complete.
// Errors: as tocsin_waitany.
int tocsin_testsome(size_t count,
                    tocsin_request **requests,
                    ptrdiff_t *completed,
                    size_t *indices,
                    tocsin_status *statuses);

// Cancels a receive that no message has matched yet; `cancelled` becomes 1 if it was, else 0. The request must be
// waited for all the same; a cancelled one gives TOCSIN_ERROR_CANCELLED.
// Errors: none of its own.
int tocsin_cancel(tocsin_request *request,
                  int *cancelled);

// Frees the handle and sets it to NULL. An operation in flight, or the run of a persistent one, goes on, and its buffers
// must stay valid until it is complete.
// Errors: none of its own.
int tocsin_request_free(tocsin_request **request);

// Has `callback` called once when the operation is complete, at once if it is already. A request has one: a later call
// before that puts its callback in the place of the earlier one, which is not called then. The request must be waited for
// or freed as without it. Of a persistent request it is for the run that is active, and leaves it active: tocsin_wait or
// tocsin_test makes it inactive; of one that is not active it is called at once, with the status that tocsin_wait gives then. The callback may start operations, and must not use the request that it is of, nor one
// that a call is working on. It should be short and had better not wait for operations (the start of a `split-tree` may
// wait, too): nothing refuses that, but the thread that runs it, which may be the one that runs all callbacks of the rank,
// goes on only when it returns. To wait in one for what another callback does is to wait for ever.
// Errors: none of its own.
int tocsin_on_complete(tocsin_request *request,
                       tocsin_callback callback,
                       void *argument);

// Starts to send `bytes` bytes to a rank. Complete when the buffer may be used again.
// Errors: RANK, TAG, PEER_DEAD, PEER_FINALIZED, REVOKED, PROTOCOL.
int tocsin_isend(const tocsin_comm *comm,
                 const void *buffer,
                 size_t bytes,
                 int dest,
                 int tag,
                 tocsin_request **request);

// As tocsin_isend, but complete only when the receiver has matched the message.
// Errors: as tocsin_isend.
int tocsin_issend(const tocsin_comm *comm,
                  const void *buffer,
                  size_t bytes,
                  int dest,
                  int tag,
                  tocsin_request **request);

// Starts to receive at most `bytes` bytes from a rank or TOCSIN_ANY_SOURCE, with a tag or TOCSIN_ANY_TAG. A longer
// message is TOCSIN_ERROR_TRUNCATED.
// Errors: RANK, TAG, PEER_DEAD, PEER_FINALIZED, REVOKED, PROTOCOL.
int tocsin_irecv(const tocsin_comm *comm,
                 void *buffer,
                 size_t bytes,
                 int source,
                 int tag,
                 tocsin_request **request);

// Sends `bytes` bytes to a rank and waits until the buffer may be used again.
// Errors: as tocsin_isend, and those that a send ends with (tocsin_wait).
int tocsin_send(const tocsin_comm *comm, const void *buffer, size_t bytes, int dest, int tag);

// Receives as tocsin_irecv and waits for it. `status` may be NULL.
// Errors: as tocsin_irecv, and those that a receive ends with (tocsin_wait).
int tocsin_recv(const tocsin_comm *comm,
                void *buffer,
                size_t bytes,
                int source,
                int tag,
                tocsin_status *status);

// Sends and receives at the same time and waits for both. The buffers do not overlap. `status` (may be NULL) is the
// receive's, or names the error of a send that failed.
// Errors: as tocsin_send and tocsin_recv.
int tocsin_sendrecv(const tocsin_comm *comm,
                    const void *send,
                    size_t send_bytes,
                    int dest,
                    int send_tag,
                    void *receive,
                    size_t receive_bytes,
                    int source,
                    int receive_tag,
                    tocsin_status *status);

// Sends a buffer's `bytes` bytes and receives at most as many into it, as tocsin_sendrecv; a copy of what is sent is made first. `status` as there.
// Errors: as tocsin_sendrecv, and SYSTEM without memory for the copy: nothing was sent then.
int tocsin_sendrecv_replace(const tocsin_comm *comm,
                            void *buffer,
                            size_t bytes,
                            int dest,
                            int send_tag,
                            int source,
                            int receive_tag,
                            tocsin_status *status);

// Looks for a message that a receive with these arguments would match; `found` becomes 1 if there is one. `status`
// may be NULL.
// Errors: RANK, TAG, PEER_DEAD, PEER_FINALIZED, REVOKED, PROTOCOL.
int tocsin_iprobe(const tocsin_comm *comm,
                  int source,
                  int tag,
                  int *found,
                  tocsin_status *status);

// Waits for a message as tocsin_iprobe finds it. Waits as a receive does: it makes progress, and after some looks gives the core to others, or sleeps.
// `status` may be NULL.
// Errors: as tocsin_iprobe; UNEXPECTED where the message is behind more unexpected ones than TOCSIN_UNEXPECTED_MAX holds, of which none was received for a second.
int tocsin_probe(const tocsin_comm *comm,
                 int source,
                 int tag,
                 tocsin_status *status);

// As tocsin_iprobe, and takes the message out of matching, so that only tocsin_imrecv with this handle receives it.
// Without a message the handle becomes NULL.
// Errors: as tocsin_iprobe.
int tocsin_improbe(const tocsin_comm *comm,
                   int source,
                   int tag,
                   tocsin_message **message,
                   tocsin_status *status);

// Waits for a message as tocsin_probe does, and takes it out of matching, as tocsin_improbe.
// Errors: as tocsin_probe.
int tocsin_mprobe(const tocsin_comm *comm,
                  int source,
                  int tag,
                  tocsin_message **message,
                  tocsin_status *status);

// Starts to receive a message that a probe took, frees its handle and sets it to NULL.
// Errors: PEER_DEAD, REVOKED, PROTOCOL.
int tocsin_imrecv(tocsin_message **message, void *buffer, size_t bytes, tocsin_request **request);

// Receives a message that a probe took: tocsin_imrecv and tocsin_wait. `status` may be NULL.
// Errors: as tocsin_imrecv, and those that a receive ends with (tocsin_wait).
int tocsin_mrecv(tocsin_message **message, void *buffer, size_t bytes, tocsin_status *status);

// The element type of so many bytes (1 to 1048576) that only a user's operator understands; 0, which is no type, for
// other sizes.
int tocsin_type_opaque(size_t bytes);

// Registers an operator of the user and writes its number. `commutative`: whether operands may be exchanged.
// Errors: ARGUMENT also when 4096 operators exist.
int tocsin_op_create(tocsin_function function,
                     void *context,
                     int commutative,
                     int *op);

// Frees the number of a user's operator and sets it to 0. Collectives that use it go on with it. Some 100 bytes of each other function,
// or context, are kept until the process ends.
// Errors: OPERATOR.
int tocsin_op_free(int *op);

// Starts a barrier: complete when every rank has started it. `algorithm` NULL: the library chooses.
// Errors: ALGORITHM, REVOKED. Here and below, ARGUMENT is also that the algorithm cannot do this here; that a rank died or has
// finalized is what the operation ends with.
int tocsin_ibarrier(const tocsin_comm *comm,
                    const char *algorithm,
                    tocsin_request **request);

// Starts a broadcast of `bytes` bytes from the root's buffer to everybody's.
// Errors: RANK, ALGORITHM, REVOKED.
int tocsin_ibcast(const tocsin_comm *comm,
                  void *buffer,
                  size_t bytes,
                  int root,
                  const char *algorithm,
                  tocsin_request **request);

// Starts a scatter: the block `i` of the root's `send` goes to rank `i`. Each has `bytes_per_rank` bytes. `send` is used at
// the root only; with `receive` NULL the root's block stays where it is.
// Errors: RANK, ALGORITHM, REVOKED.
int tocsin_iscatter(const tocsin_comm *comm,
                    const void *send,
                    void *receive,
                    size_t bytes_per_rank,
                    int root,
                    const char *algorithm,
                    tocsin_request **request);

// Starts a scatter of blocks of different lengths. `send`, `send_bytes` and `send_offsets` are used at the root only;
// `receive` has `receive_bytes` bytes. With `receive` NULL the root's block stays where it is.
//
// Here and below, lists have one entry per rank and are read during the call only: the blocks' lengths, and how many bytes
// after the start of the buffer each begins; offsets NULL: one follows the other. Received blocks may stand between
// each other and what is sent, and overlap neither.
// Errors: RANK, ALGORITHM, REVOKED.
int tocsin_iscatterv(const tocsin_comm *comm,
                     const void *send,
                     const size_t *send_bytes,
                     const size_t *send_offsets,
                     void *receive,
                     size_t receive_bytes,
                     int root,
                     const char *algorithm,
                     tocsin_request **request);

// Starts a gather: rank `i`'s `send` becomes block `i` of the root's `receive`. Each has `bytes_per_rank` bytes. `receive` is
// used at the root only; with `send` NULL the root's block stands there already.
// Errors: RANK, ALGORITHM, REVOKED.
int tocsin_igather(const tocsin_comm *comm,
                   const void *send,
                   void *receive,
                   size_t bytes_per_rank,
                   int root,
                   const char *algorithm,
                   tocsin_request **request);

// Starts a gather of blocks of different lengths. `send` has `send_bytes` bytes; with `send` NULL the root's block stands in
// `receive` already. `receive`, `receive_bytes` and `receive_offsets` are used at the root only, and `receive_offsets` may be
// NULL; what lies between the blocks stays as it is.
// Errors: RANK, ALGORITHM, REVOKED.
int tocsin_igatherv(const tocsin_comm *comm,
                    const void *send,
                    size_t send_bytes,
                    void *receive,
                    const size_t *receive_bytes,
                    const size_t *receive_offsets,
                    int root,
                    const char *algorithm,
                    tocsin_request **request);

// Starts an allgather: rank `i`'s `send` becomes block `i` of everybody's `receive`. Each has `bytes_per_rank` bytes. With
// `send` NULL this rank's block stands in `receive` already; else the buffers do not overlap.
// Errors: as tocsin_ibarrier.
int tocsin_iallgather(const tocsin_comm *comm,
                      const void *send,
                      void *receive,
                      size_t bytes_per_rank,
                      const char *algorithm,
                      tocsin_request **request);

// Starts an allgather of blocks of different lengths: `receive_bytes` is the same on all ranks, `receive_offsets` each rank's
// own business, or NULL. `send` is as long as this rank's block; NULL: it stands in `receive` already.
// Errors: as tocsin_ibarrier.
int tocsin_iallgatherv(const tocsin_comm *comm,
                       const void *send,
                       void *receive,
                       const size_t *receive_bytes,
                       const size_t *receive_offsets,
                       const char *algorithm,
                       tocsin_request **request);

// Starts an alltoall: the block `i` of `send` goes to rank `i`, whose block for us arrives as block `i` of `receive`.
// Each block has `bytes_per_rank` bytes. The buffers do not overlap, or are the same: the data is then taken from there.
// Errors: as tocsin_ibarrier.
int tocsin_ialltoall(const tocsin_comm *comm,
                     const void *send,
                     void *receive,
                     size_t bytes_per_rank,
                     const char *algorithm,
                     tocsin_request **request);

// Starts an alltoall of blocks of different lengths, each as long at its sender as at its receiver. Offsets may be NULL.
// With `send_bytes` NULL the data is taken from `receive`, each block as long as the one that takes its place.
// Errors: as tocsin_ibarrier.
int tocsin_ialltoallv(const tocsin_comm *comm,
                      const void *send,
                      const size_t *send_bytes,
                      const size_t *send_offsets,
                      void *receive,
                      const size_t *receive_bytes,
                      const size_t *receive_offsets,
                      const char *algorithm,
                      tocsin_request **request);

// As tocsin_ialltoallv, where each block has elements of a type of its own: lengths are counts of elements of
// `send_datatypes` and `receive_datatypes` (TOCSIN_INT8 ... or from tocsin_type_opaque), offsets are in bytes. With
// `send_counts` NULL the data is taken from `receive`.
// Errors: OPERATOR for what is no element type, ALGORITHM, REVOKED.
int tocsin_ialltoallw(const tocsin_comm *comm,
                      const void *send,
                      const size_t *send_counts,
                      const size_t *send_offsets,
                      const int *send_datatypes,
                      void *receive,
                      const size_t *receive_counts,
                      const size_t *receive_offsets,
                      const int *receive_datatypes,
                      const char *algorithm,
                      tocsin_request **request);

// Starts a reduction of `count` elements: the root receives the combination of all send buffers. `receive` is used at the
// root only; with `send` NULL the root's data is taken from there. `datatype` and `op` as in tocsin_iallreduce.
// Errors: RANK, OPERATOR, ALGORITHM, REVOKED.
int tocsin_ireduce(const tocsin_comm *comm,
                   const void *send,
                   void *receive,
                   size_t count,
                   int datatype,
                   int op,
                   int root,
                   const char *algorithm,
                   tocsin_request **request);

// Starts an allreduce of `count` elements: every rank receives the combination of all send buffers. With `send` NULL
// the data is taken from `receive`. `datatype` is one of TOCSIN_INT8 ... or from tocsin_type_opaque, `op` one of
// TOCSIN_SUM ... or from tocsin_op_create.
// Errors: OPERATOR, ALGORITHM, REVOKED.
int tocsin_iallreduce(const tocsin_comm *comm,
                      const void *send,
                      void *receive,
                      size_t count,
                      int datatype,
                      int op,
                      const char *algorithm,
                      tocsin_request **request);

// Starts a reduction of which rank `i` receives `counts[i]` elements, those that follow the parts of the ranks before it;
// `counts` has one entry per rank, the same on all ranks, and is read during the call only. `send` has all elements. With
// `send` NULL the data is taken from `receive`, at whose start this rank's part then arrives.
// Errors: as tocsin_iallreduce.
int tocsin_ireduce_scatter(const tocsin_comm *comm,
                           const void *send,
                           void *receive,
                           const size_t *counts,
                           int datatype,
                           int op,
                           const char *algorithm,
                           tocsin_request **request);

// As tocsin_ireduce_scatter, with `count` elements for each rank.
// Errors: as tocsin_iallreduce.
int tocsin_ireduce_scatter_block(const tocsin_comm *comm,
                                 const void *send,
                                 void *receive,
                                 size_t count,
                                 int datatype,
                                 int op,
                                 const char *algorithm,
                                 tocsin_request **request);

// Starts a reduction of which rank `i` receives the combination of the ranks 0 to `i`, in that order. With `send` NULL the
// data is taken from `receive`.
// Errors: as tocsin_iallreduce.
int tocsin_iscan(const tocsin_comm *comm,
                 const void *send,
                 void *receive,
                 size_t count,
                 int datatype,
                 int op,
                 const char *algorithm,
                 tocsin_request **request);

// As tocsin_iscan, without the rank's own contribution: rank `i` receives that of the ranks 0 to `i` - 1. `receive` of rank
// 0 stays as it is, and may be NULL unless `send` is.
// Errors: as tocsin_iallreduce.
int tocsin_iexscan(const tocsin_comm *comm,
                   const void *send,
                   void *receive,
                   size_t count,
                   int datatype,
                   int op,
                   const char *algorithm,
                   tocsin_request **request);

// Starts a persistent request once more: a collective as the next one of its communicator, which every rank starts, in the
// same order among the others; a message as tocsin_isend, tocsin_issend or tocsin_irecv does. It is active then, until
// tocsin_wait or tocsin_test gives its outcome. Where the start fails, it is as it was. That of a collective allocates
// nothing, and asks the system only to ring a peer. Excepted are what a peer has done after the preparation, once: that it
// joined, that it is the first to share memory of the heap, that it made its pipe to this rank (TOCSIN_LMT=vmsplice); and
// what any pass of progress does on its way out: it may set the timer, have the kernel make the single copy of a long
// message, and run callbacks. TOCSIN_ERROR_ARGUMENT for one that is active or not persistent.
// Errors: ARGUMENT as said, REVOKED; of a message, PEER_DEAD, PEER_FINALIZED and PROTOCOL, too.
int tocsin_start(tocsin_request *request);

// Starts `count` persistent requests, in the order of the array, none of which may be NULL: that is an error here. The
// first that fails ends it: those before it are started, it and those after it are as they were.
// Errors: as tocsin_start; ARGUMENT also for a request that is in the array twice.
int tocsin_startall(size_t count,
                    tocsin_request **requests);

// Prepares a barrier: arguments as those of tocsin_ibarrier.
//
// Here and below, preparing concerns no other rank, reads lists during the call only and leaves the buffers alone: they
// belong to the library while the request is active, and have to stay where they are until it is freed. The request is
// persistent: tocsin_start starts it, tocsin_wait, tocsin_test and the like wait for it and leave it, inactive, in its
// place, to be started again; tocsin_request_free frees it.
// Errors: as tocsin_ibarrier.
int tocsin_barrier_init(const tocsin_comm *comm,
                        const char *algorithm,
                        tocsin_request **request);

// Prepares a broadcast: arguments as those of tocsin_ibcast.
// Errors: as tocsin_ibcast.
int tocsin_bcast_init(const tocsin_comm *comm,
                      void *buffer,
                      size_t bytes,
                      int root,
                      const char *algorithm,
                      tocsin_request **request);

// Prepares a scatter: arguments as those of tocsin_iscatter.
// Errors: as tocsin_iscatter.
int tocsin_scatter_init(const tocsin_comm *comm,
                        const void *send,
                        void *receive,
                        size_t bytes_per_rank,
                        int root,
                        const char *algorithm,
                        tocsin_request **request);

// Prepares a scatter of blocks of different lengths: arguments as those of tocsin_iscatterv.
// Errors: as tocsin_iscatterv.
int tocsin_scatterv_init(const tocsin_comm *comm,
                         const void *send,
                         const size_t *send_bytes,
                         const size_t *send_offsets,
                         void *receive,
                         size_t receive_bytes,
                         int root,
                         const char *algorithm,
                         tocsin_request **request);

// Prepares a gather: arguments as those of tocsin_igather.
// Errors: as tocsin_igather.
int tocsin_gather_init(const tocsin_comm *comm,
                       const void *send,
                       void *receive,
                       size_t bytes_per_rank,
                       int root,
                       const char *algorithm,
                       tocsin_request **request);

// Prepares a gather of blocks of different lengths: arguments as those of tocsin_igatherv.
// Errors: as tocsin_igatherv.
int tocsin_gatherv_init(const tocsin_comm *comm,
                        const void *send,
                        size_t send_bytes,
                        void *receive,
                        const size_t *receive_bytes,
                        const size_t *receive_offsets,
                        int root,
                        const char *algorithm,
                        tocsin_request **request);

// Prepares an allgather: arguments as those of tocsin_iallgather.
// Errors: as tocsin_iallgather.
int tocsin_allgather_init(const tocsin_comm *comm,
                          const void *send,
                          void *receive,
                          size_t bytes_per_rank,
                          const char *algorithm,
                          tocsin_request **request);

// Prepares an allgather of blocks of different lengths: arguments as those of tocsin_iallgatherv.
// Errors: as tocsin_iallgatherv.
int tocsin_allgatherv_init(const tocsin_comm *comm,
                           const void *send,
                           void *receive,
                           const size_t *receive_bytes,
                           const size_t *receive_offsets,
                           const char *algorithm,
                           tocsin_request **request);

// Prepares an alltoall: arguments as those of tocsin_ialltoall.
// Errors: as tocsin_ialltoall.
int tocsin_alltoall_init(const tocsin_comm *comm,
                         const void *send,
                         void *receive,
                         size_t bytes_per_rank,
                         const char *algorithm,
                         tocsin_request **request);

// Prepares an alltoall of blocks of different lengths: arguments as those of tocsin_ialltoallv.
// Errors: as tocsin_ialltoallv.
int tocsin_alltoallv_init(const tocsin_comm *comm,
                          const void *send,
                          const size_t *send_bytes,
                          const size_t *send_offsets,
                          void *receive,
                          const size_t *receive_bytes,
                          const size_t *receive_offsets,
                          const char *algorithm,
                          tocsin_request **request);

// Prepares an alltoall of blocks that differ in type too: arguments as those of tocsin_ialltoallw.
// Errors: as tocsin_ialltoallw.
int tocsin_alltoallw_init(const tocsin_comm *comm,
                          const void *send,
                          const size_t *send_counts,
                          const size_t *send_offsets,
                          const int *send_datatypes,
                          void *receive,
                          const size_t *receive_counts,
                          const size_t *receive_offsets,
                          const int *receive_datatypes,
                          const char *algorithm,
                          tocsin_request **request);

// Prepares a reduction: arguments as those of tocsin_ireduce.
// Errors: as tocsin_ireduce.
int tocsin_reduce_init(const tocsin_comm *comm,
                       const void *send,
                       void *receive,
                       size_t count,
                       int datatype,
                       int op,
                       int root,
                       const char *algorithm,
                       tocsin_request **request);

// Prepares an allreduce: arguments as those of tocsin_iallreduce.
// Errors: as tocsin_iallreduce.
int tocsin_allreduce_init(const tocsin_comm *comm,
                          const void *send,
                          void *receive,
                          size_t count,
                          int datatype,
                          int op,
                          const char *algorithm,
                          tocsin_request **request);

// Prepares a reduction of which each rank receives a part: arguments as those of tocsin_ireduce_scatter.
// Errors: as tocsin_ireduce_scatter.
int tocsin_reduce_scatter_init(const tocsin_comm *comm,
                               const void *send,
                               void *receive,
                               const size_t *counts,
                               int datatype,
                               int op,
                               const char *algorithm,
                               tocsin_request **request);

// Prepares a reduction of which each rank receives a part of the same length: arguments as those of tocsin_ireduce_scatter_block.
// Errors: as tocsin_ireduce_scatter_block.
int tocsin_reduce_scatter_block_init(const tocsin_comm *comm,
                                     const void *send,
                                     void *receive,
                                     size_t count,
                                     int datatype,
                                     int op,
                                     const char *algorithm,
                                     tocsin_request **request);

// Prepares a reduction of the ranks up to each rank: arguments as those of tocsin_iscan.
// Errors: as tocsin_iscan.
int tocsin_scan_init(const tocsin_comm *comm,
                     const void *send,
                     void *receive,
                     size_t count,
                     int datatype,
                     int op,
                     const char *algorithm,
                     tocsin_request **request);

// Prepares a reduction of the ranks before each rank: arguments as those of tocsin_iexscan.
// Errors: as tocsin_iexscan.
int tocsin_exscan_init(const tocsin_comm *comm,
                       const void *send,
                       void *receive,
                       size_t count,
                       int datatype,
                       int op,
                       const char *algorithm,
                       tocsin_request **request);

// Prepares a send: arguments as those of tocsin_isend. Each tocsin_start sends what the buffer holds then, to a receive of
// any kind. Whether the rank is there, the start asks.
// Errors: RANK, TAG, REVOKED.
int tocsin_send_init(const tocsin_comm *comm,
                     const void *buffer,
                     size_t bytes,
                     int dest,
                     int tag,
                     tocsin_request **request);

// As tocsin_send_init; a run is complete only when the receiver has matched its message.
// Errors: as tocsin_send_init.
int tocsin_ssend_init(const tocsin_comm *comm,
                      const void *buffer,
                      size_t bytes,
                      int dest,
                      int tag,
                      tocsin_request **request);

// Prepares a receive: arguments as those of tocsin_irecv. Each tocsin_start takes one message, of a send of any kind, and
// the status of the wait or test says whose. A run that tocsin_cancel has cancelled may be followed by others.
// Errors: as tocsin_send_init.
int tocsin_recv_init(const tocsin_comm *comm,
                     void *buffer,
                     size_t bytes,
                     int source,
                     int tag,
                     tocsin_request **request);

// As tocsin_iscatterv, of blocks in pieces in `send`: the list, used at the root only, has one entry per rank and is read during the call
// only. `receive` is one run of `receive_bytes` bytes. What has pieces is packed through memory of the request.
// Errors: as tocsin_iscatterv.
int tocsin_iscatterv_strided(const tocsin_comm *comm,
                             const void *send,
                             const tocsin_strided *send_blocks,
                             void *receive,
                             size_t receive_bytes,
                             int root,
                             const char *algorithm,
                             tocsin_request **request);

// Prepares a scatter of blocks in pieces: arguments as those of tocsin_iscatterv_strided.
// Errors: as tocsin_iscatterv_strided.
int tocsin_scatterv_strided_init(const tocsin_comm *comm,
                                 const void *send,
                                 const tocsin_strided *send_blocks,
                                 void *receive,
                                 size_t receive_bytes,
                                 int root,
                                 const char *algorithm,
                                 tocsin_request **request);

// As tocsin_igatherv, into blocks in pieces of `receive`, which do not overlap: the list, used at the root only, has one entry per rank and is
// read during the call only. `send` is one run of `send_bytes` bytes. What has pieces is unpacked through memory of the request.
// Errors: as tocsin_igatherv.
int tocsin_igatherv_strided(const tocsin_comm *comm,
                            const void *send,
                            size_t send_bytes,
                            void *receive,
                            const tocsin_strided *receive_blocks,
                            int root,
                            const char *algorithm,
                            tocsin_request **request);

// Prepares a gather of blocks in pieces: arguments as those of tocsin_igatherv_strided.
// Errors: as tocsin_igatherv_strided.
int tocsin_gatherv_strided_init(const tocsin_comm *comm,
                                const void *send,
                                size_t send_bytes,
                                void *receive,
                                const tocsin_strided *receive_blocks,
                                int root,
                                const char *algorithm,
                                tocsin_request **request);

// As tocsin_iallgatherv, into blocks in pieces of `receive`, which do not overlap: the list has one entry per rank, is read during the call
// only, and may have other pieces on each rank, where blocks are as long on all. `send` is one run of bytes; NULL: this rank's block stands
// in `receive` already. What has pieces is packed and unpacked through memory of the request.
// Errors: as tocsin_ibarrier.
int tocsin_iallgatherv_strided(const tocsin_comm *comm,
                               const void *send,
                               void *receive,
                               const tocsin_strided *receive_blocks,
                               const char *algorithm,
                               tocsin_request **request);

// Prepares an allgather of blocks in pieces: arguments as those of tocsin_iallgatherv_strided.
// Errors: as tocsin_iallgatherv_strided.
int tocsin_allgatherv_strided_init(const tocsin_comm *comm,
                                   const void *send,
                                   void *receive,
                                   const tocsin_strided *receive_blocks,
                                   const char *algorithm,
                                   tocsin_request **request);

// As tocsin_ialltoallw, of blocks in pieces: the lists have one entry per rank and are read during the call only. A block is
// as long at its sender as at its receiver, whatever pieces it has there; one of no bytes is not sent. Pieces of received
// blocks may stand between each other, and do not overlap. What has pieces is packed and unpacked through memory of the
// request. With `send_blocks` NULL the data is taken from `receive`.
// Errors: as tocsin_ibarrier.
int tocsin_ialltoallw_strided(const tocsin_comm *comm,
                              const void *send,
                              const tocsin_strided *send_blocks,
                              void *receive,
                              const tocsin_strided *receive_blocks,
                              const char *algorithm,
                              tocsin_request **request);

// Prepares an alltoall of blocks in pieces: arguments as those of tocsin_ialltoallw_strided.
// Errors: as tocsin_ialltoallw_strided.
int tocsin_alltoallw_strided_init(const tocsin_comm *comm,
                                  const void *send,
                                  const tocsin_strided *send_blocks,
                                  void *receive,
                                  const tocsin_strided *receive_blocks,
                                  const char *algorithm,
                                  tocsin_request **request);

// A barrier, and the wait for it: arguments as those of tocsin_ibarrier, but for the request.
//
// Here and below, the call returns when this rank's part is over, with the operation's own error; the buffers are then the
// caller's again. All ranks of the communicator call it, in the same order among their other collectives: one that starts it
// and waits later, or has prepared it, is as good. Not in a callback.
// Errors: as tocsin_ibarrier, and those that a collective ends with (tocsin_wait).
int tocsin_barrier(const tocsin_comm *comm,
                   const char *algorithm);

// A broadcast, and the wait for it: arguments as those of tocsin_ibcast, but for the request.
// Errors: as tocsin_ibcast, and those that a collective ends with (tocsin_wait).
int tocsin_bcast(const tocsin_comm *comm,
                 void *buffer,
                 size_t bytes,
                 int root,
                 const char *algorithm);

// A scatter, and the wait for it: arguments as those of tocsin_iscatter, but for the request.
// Errors: as tocsin_iscatter, and those that a collective ends with (tocsin_wait).
int tocsin_scatter(const tocsin_comm *comm,
                   const void *send,
                   void *receive,
                   size_t bytes_per_rank,
                   int root,
                   const char *algorithm);

// A scatter of blocks of different lengths, and the wait for it: arguments as those of tocsin_iscatterv, but for the request.
// Errors: as tocsin_iscatterv, and those that a collective ends with (tocsin_wait).
int tocsin_scatterv(const tocsin_comm *comm,
                    const void *send,
                    const size_t *send_bytes,
                    const size_t *send_offsets,
                    void *receive,
                    size_t receive_bytes,
                    int root,
                    const char *algorithm);

// A gather, and the wait for it: arguments as those of tocsin_igather, but for the request.
// Errors: as tocsin_igather, and those that a collective ends with (tocsin_wait).
int tocsin_gather(const tocsin_comm *comm,
                  const void *send,
                  void *receive,
                  size_t bytes_per_rank,
                  int root,
                  const char *algorithm);

// A gather of blocks of different lengths, and the wait for it: arguments as those of tocsin_igatherv, but for the request.
// Errors: as tocsin_igatherv, and those that a collective ends with (tocsin_wait).
int tocsin_gatherv(const tocsin_comm *comm,
                   const void *send,
                   size_t send_bytes,
                   void *receive,
                   const size_t *receive_bytes,
                   const size_t *receive_offsets,
                   int root,
                   const char *algorithm);

// An allgather, and the wait for it: arguments as those of tocsin_iallgather, but for the request.
// Errors: as tocsin_iallgather, and those that a collective ends with (tocsin_wait).
int tocsin_allgather(const tocsin_comm *comm,
                     const void *send,
                     void *receive,
                     size_t bytes_per_rank,
                     const char *algorithm);

// An allgather of blocks of different lengths, and the wait for it: arguments as those of tocsin_iallgatherv, but for the request.
// Errors: as tocsin_iallgatherv, and those that a collective ends with (tocsin_wait).
int tocsin_allgatherv(const tocsin_comm *comm,
                      const void *send,
                      void *receive,
                      const size_t *receive_bytes,
                      const size_t *receive_offsets,
                      const char *algorithm);

// An alltoall, and the wait for it: arguments as those of tocsin_ialltoall, but for the request.
// Errors: as tocsin_ialltoall, and those that a collective ends with (tocsin_wait).
int tocsin_alltoall(const tocsin_comm *comm,
                    const void *send,
                    void *receive,
                    size_t bytes_per_rank,
                    const char *algorithm);

// An alltoall of blocks of different lengths, and the wait for it: arguments as those of tocsin_ialltoallv, but for the request.
// Errors: as tocsin_ialltoallv, and those that a collective ends with (tocsin_wait).
int tocsin_alltoallv(const tocsin_comm *comm,
                     const void *send,
                     const size_t *send_bytes,
                     const size_t *send_offsets,
                     void *receive,
                     const size_t *receive_bytes,
                     const size_t *receive_offsets,
                     const char *algorithm);

// An alltoall of blocks that differ in type too, and the wait for it: arguments as those of tocsin_ialltoallw, but for the request.
// Errors: as tocsin_ialltoallw, and those that a collective ends with (tocsin_wait).
int tocsin_alltoallw(const tocsin_comm *comm,
                     const void *send,
                     const size_t *send_counts,
                     const size_t *send_offsets,
                     const int *send_datatypes,
                     void *receive,
                     const size_t *receive_counts,
                     const size_t *receive_offsets,
                     const int *receive_datatypes,
                     const char *algorithm);

// A reduction, and the wait for it: arguments as those of tocsin_ireduce, but for the request.
// Errors: as tocsin_ireduce, and those that a collective ends with (tocsin_wait).
int tocsin_reduce(const tocsin_comm *comm,
                  const void *send,
                  void *receive,
                  size_t count,
                  int datatype,
                  int op,
                  int root,
                  const char *algorithm);

// An allreduce, and the wait for it: arguments as those of tocsin_iallreduce, but for the request.
// Errors: as tocsin_iallreduce, and those that a collective ends with (tocsin_wait).
int tocsin_allreduce(const tocsin_comm *comm,
                     const void *send,
                     void *receive,
                     size_t count,
                     int datatype,
                     int op,
                     const char *algorithm);

// A reduction of which each rank receives a part, and the wait for it: arguments as those of tocsin_ireduce_scatter, but for the request.
// Errors: as tocsin_ireduce_scatter, and those that a collective ends with (tocsin_wait).
int tocsin_reduce_scatter(const tocsin_comm *comm,
                          const void *send,
                          void *receive,
                          const size_t *counts,
                          int datatype,
                          int op,
                          const char *algorithm);

// A reduction of which each rank receives a part of the same length, and the wait for it: arguments as those of tocsin_ireduce_scatter_block, but for the request.
// Errors: as tocsin_ireduce_scatter_block, and those that a collective ends with (tocsin_wait).
int tocsin_reduce_scatter_block(const tocsin_comm *comm,
                                const void *send,
                                void *receive,
                                size_t count,
                                int datatype,
                                int op,
                                const char *algorithm);

// A reduction of the ranks up to each rank, and the wait for it: arguments as those of tocsin_iscan, but for the request.
// Errors: as tocsin_iscan, and those that a collective ends with (tocsin_wait).
int tocsin_scan(const tocsin_comm *comm,
                const void *send,
                void *receive,
                size_t count,
                int datatype,
                int op,
                const char *algorithm);

// A reduction of the ranks before each rank, and the wait for it: arguments as those of tocsin_iexscan, but for the request.
// Errors: as tocsin_iexscan, and those that a collective ends with (tocsin_wait).
int tocsin_exscan(const tocsin_comm *comm,
                  const void *send,
                  void *receive,
                  size_t count,
                  int datatype,
                  int op,
                  const char *algorithm);

// A scatter of blocks in pieces, and the wait for it: arguments as those of tocsin_iscatterv_strided, but for the request.
// Errors: as tocsin_iscatterv_strided, and those that a collective ends with (tocsin_wait).
int tocsin_scatterv_strided(const tocsin_comm *comm,
                            const void *send,
                            const tocsin_strided *send_blocks,
                            void *receive,
                            size_t receive_bytes,
                            int root,
                            const char *algorithm);

// A gather of blocks in pieces, and the wait for it: arguments as those of tocsin_igatherv_strided, but for the request.
// Errors: as tocsin_igatherv_strided, and those that a collective ends with (tocsin_wait).
int tocsin_gatherv_strided(const tocsin_comm *comm,
                           const void *send,
                           size_t send_bytes,
                           void *receive,
                           const tocsin_strided *receive_blocks,
                           int root,
                           const char *algorithm);

// An allgather of blocks in pieces, and the wait for it: arguments as those of tocsin_iallgatherv_strided, but for the request.
// Errors: as tocsin_iallgatherv_strided, and those that a collective ends with (tocsin_wait).
int tocsin_allgatherv_strided(const tocsin_comm *comm,
                              const void *send,
                              void *receive,
                              const tocsin_strided *receive_blocks,
                              const char *algorithm);

// An alltoall of blocks in pieces, and the wait for it: arguments as those of tocsin_ialltoallw_strided, but for the request.
// Errors: as tocsin_ialltoallw_strided, and those that a collective ends with (tocsin_wait).
int tocsin_alltoallw_strided(const tocsin_comm *comm,
                             const void *send,
                             const tocsin_strided *send_blocks,
                             void *receive,
                             const tocsin_strided *receive_blocks,
                             const char *algorithm);

// Runs `body` on `ranks` threads, each a rank of one world, and waits for them. Returns TOCSIN_ERROR_USER, naming the
// rank, if a body returned other than 0.
// Errors: ENVIRONMENT, USER; ARGUMENT also when ranks cannot be placed as the environment variables TOCSIN_* say.
int tocsin_threads_run(int ranks,
                       tocsin_body body,
                       void *argument);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TOCSIN_H */
