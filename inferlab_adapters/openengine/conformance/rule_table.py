"""The table of rules: id, revisions (B both, S seed, V v0.1.0, - served by none), sentence."""

INFERENCE = """
G1 B What is refused before acceptance gets a status other than OK and no message.
G2 B A failure after acceptance is one error event, and then the status OK.
G3 B Nothing comes after an error event.
G4 B A broken transport is a status; no error event is made up for it.
G5 B A unary call that fails says so by its status, never by an empty answer.
G6 B Acceptance waits for the whole validation: one bad field, and no event comes.
G7 S retry_after_ms comes only with retryable.
G8 S Keys of error details that only one engine knows are namespaced.
G9 B retryable is false for what can never succeed, and true for overload.
G10 B What discovery does not know is absent, not zero.
G11 V A routing key that is malformed or comes twice is refused with INVALID_ARGUMENT.
G12 V Routing keys on a call of Control do not fail it.
G13 V Trace context is taken on every call.
G14 V A target rank that is not the session's is refused with INVALID_ARGUMENT.
G15 V A priority key to a model that has no priorities breaks nothing.
G16 V An enum value that the server does not know is no error.
G17 V An empty or unknown extra is no error.
R1 B A request has an id.
R2 B A request names a model, and one that is served.
R3 B A request has exactly one input, and not an empty one.
R4 B num_sequences is 1 when absent, and neither 0 nor above the limit when present.
R5 B An id that is in flight is refused, and free again afterwards.
R6 B A request that does not fit the role is refused before acceptance.
R7 B An option that is not advertised is refused, not dropped.
R8 B A media item has one source, and its modality is advertised.
R9 B A guide that cannot be parsed is an error.
R10 B A stop condition and a candidate selection say which kind they are.
R11 B An explicit zero is zero, not the default.
R12 B An adapter that is not loaded is refused.
R13 S A larger priority runs sooner.
O1 B Every message repeats the request's id.
O2 B Every message has exactly one event.
O3 B Prompt tokens come at most once, when asked for, and before any output.
O4 B The first prompt token has no logprob, rank or candidates.
O5 B Prompt tokens are the ids that were sent, one record each.
O6 B Every token and finish event carries its output_index, zero included.
O7 B An output_index is below num_sequences.
O8 B Tokens and text are deltas.
O9 B Nothing comes for an output after its finish.
O10 B A success finishes every output.
O11 B The last finish ends the stream.
O12 B Usage is on the last message alone, and counts all outputs.
O13 B Usage adds up: total is prompt plus completion, parts are no larger than their whole.
O14 B A finish by STOP names what was hit.
O15 B A finish by LENGTH comes at max_tokens.
O16 B A finish reason is one that exists, and never unspecified.
O17 B include_stop_in_output decides whether the matched stop is in the output.
O18 B Output candidates are those that were selected.
O19 B A logprob is at most 0, a rank at least 1, and 1 for a greedy token.
O20 B A request past the prefix cache uses none of it, and still fills it.
O21 B A cache salt keeps caches apart.
O22 B The same seed gives the same output.
O23 B A cancelled call and a passed deadline stop the work.
O24 B min_tokens, stop conditions and ignore_eos are obeyed.
O25 B Guided output is what the guide allows.
P1 B A prefill server's success is one PrefillReady, its last message, and no tokens.
P2 B PrefillReady carries a session with an id.
P3 B A decode server takes the session of a prefill server, and generates.
P4 B Each role refuses the requests of another before acceptance.
P5 B A session that is unknown, forged or of another backend is refused or fails; it never hangs.
P6 B A prefill that fails after acceptance ends with one error event.
P7 B A session's memory is free once it was used, aborted or lost.
P8 B A session's attributes survive a client: numbers beyond 2**53 are strings.
P9 B A session's endpoints are hosts that a peer can connect to.
P10 V The session's dp_rank decides, whatever the routing keys say.
"""

CONTROL = """
I1 B Discovery names the schema revision, which is not 0.
I2 B Discovery names the oldest client revision, at least 1 and at most its own.
I3 B Discovery names a release that never moves.
I4 B Discovery names the engine and at least one model.
I5 B Discovery names the role that the server enforces.
I6 B Model facts can be had of every model that discovery lists.
I7 V decode_context_parallel_size is at least 1 where it is present.
I8 V Cache size and request ceilings are in capacity.
I9 V A prefill or decode server reports its connector in discovery.
M1 B Model facts need a model.
M2 B An unknown model is NOT_FOUND.
M3 B A capability that is present says whether it is supported.
M4 B The limits on prompt and output logprobs are exact.
M5 B A server that advertises adapters serves the adapter calls.
M6 B What is advertised is accepted, and works.
M7 S Task capabilities hold no unspecified value and no limit of 0.
M8 S Modalities of a task come with multimodal input, and are specified.
M9 S embed.dimension is the size of what comes back.
M10 B A model answers to each of its names.
L1 B Load that is reported is real: it rises with work.
L2 B Load of ranks comes when asked for, and each names its rank, zero included.
L3 B Load names the instance that discovery names.
L4 V Load attributes keep their types; numbers beyond 2**53 are strings.
K1 S The connector is the same in its own call and in discovery.
K2 B An event source can be connected to.
K3 B Event sources can be chosen by rank, and each names its rank, zero included.
K4 B A KV event message is a batch or the last one, an error.
K5 B Sequence numbers of KV events rise strictly for each rank.
K6 B A subscription starts at the number that was asked for, or fails.
K7 B A batch carries its time.
K8 B A stored block follows a known one, and what is removed was stored.
K9 B A snapshot comes first when asked for.
H1 B Health answers without a probe.
H2 B Health with a probe adds a check named inference_probe.
H3 B A health state is specified, and READY only where inference works.
H4 B Health of an unknown model or another role is not READY.
H5 S Health says DRAINING during a drain.
A1 B An abort without a target is INVALID_ARGUMENT.
A2 B An abort of something unknown is NOT_FOUND.
A3 B An abort of a running request ends its stream once.
A4 B An abort of a finished request says so, as often as asked.
A5 B An abort of all requests ends all, and is fine when there is none.
A6 B A server that cannot abort says UNIMPLEMENTED.
A7 B An abort of a session frees it, or is UNIMPLEMENTED.
D1 S A drain goes from STARTED to COMPLETE, and then ends.
D2 S A drain that fails ends with one error event.
D3 S A drain without a deadline waits; one with 0 does not.
D4 S A drain that may abort ends running work at its deadline.
D5 S A drain that takes no new requests refuses them and lets the others finish.
D6 S A drain's counts reach 0 before COMPLETE.
D7 S A drain state is specified.
LO1 B An adapter has an id above 0, a name and an absolute path.
LO2 B The same adapter can be loaded twice.
LO3 B An adapter that clashes by id, name or path is ALREADY_EXISTS.
LO4 B Unloading an unknown adapter is NOT_FOUND.
LO5 B A server without adapters answers FAILED_PRECONDITION.
LO6 B A loaded adapter is listed and works; an unloaded one is not and does not.
LO7 V No more adapters are resident than capacity allows.
X1 S Only subscribed types of runtime events come; without a choice, all.
X2 S A runtime event has an id, a time and a type.
X3 S An error ends a runtime event stream.
"""

TASKS = """
T1 S A task that the model does not have is FAILED_PRECONDITION.
T2 S A task on an unknown model is NOT_FOUND.
T3 S A malformed task is INVALID_ARGUMENT.
T4 S A task beyond capacity is RESOURCE_EXHAUSTED.
T5 S A task has an id, of the same names as generation, and a model.
T6 S A task has at least one item.
T7 S Items of a task have ids, each its own.
T8 S An item has exactly one input.
T9 S A multimodal item has media.
T10 S A dense tensor has the size of its shape, and finite values.
T11 S A sparse tensor has rising indices within its shape, and a value each.
T12 S A single number has the shape [1].
T13 S A task's cached tokens are part of its input tokens.
T14 S Each input has one output, in order, with its index, zero included.
T15 S A cancelled task stops.
T16 S A task takes priorities and adapters only where advertised.
T17 S A task's limits are enforced.
E1 S An embedding option is done exactly, or refused.
E2 S Dimensions are above 0 and no more than the model has.
E3 S An embedding has the shape of its granularity.
E4 S Token ids of an embedding are as many as its rows.
E5 S A normalized embedding has the length 1.
E6 S An embedding has the encoding that was asked for.
C1 S A classification says what its values mean.
C2 S A classification has the shape of its granularity.
C3 S Labels are as many as classes.
C4 S Token ids of a classification are as many as its rows.
C5 S Probabilities are between 0 and 1.
SC1 S A score request has groups with ids of their own, each with candidates with ids of their own.
SC2 S A label token that comes twice is refused.
SC3 S Label tokens come back in order.
SC4 S Softmax scores of labels add up to 1.
SC5 S An instruction is taken only where advertised.
SC6 S Every group and candidate comes back once, in order, with its index.
SC7 S A score says its granularity, meaning and normalization.
SC8 S There is no partial success.
SC9 S No source text comes back.
SC10 S The direction of scores is the advertised one unless stated.
Z1 - A KV session opens no conversation.
Z2 - A conversation's id is its own.
Z3 - A timeout of zero has one meaning.
Z4 - The answer states the lease and the state.
Z5 - A conversation keeps its model and adapter.
Z6 - Another instance's conversation is refused.
Z7 - Closing twice is fine.
Z8 - Expired is told from unknown.
Z9 - What is over cannot go on, and holds nothing.
Z10 - Appending works; other edits need a capability.
Z11 - A streamed request starts with one start frame.
Z12 - Chunks are numbered, and gaps and repeats are handled as documented.
Z13 - Nothing follows the end of input.
Z14 - A stream that closes early is an error.
Z15 - Output before the end of input is advertised.
Z16 - There is one ending.
Z17 - Stopping the work keeps the conversation.
Z18 - A stream carries one request.
Z19 - Generate is the same without conversations.
Z20 - Capabilities list what conversations can do.
"""
