// Made by demerit from the JSON Schema of GET /v1/proxy/status: change it there.

/** What a demerit proxy is doing and has counted. A key that is not described here may come at any time. */
export interface Status {
  /** Name and number of this format: demerit.proxy-status/1. */
  schema: "demerit.proxy-status/1";
  /** Since when it counts. */
  started_at: string;
  /** Seconds since it began. */
  uptime_s: number;
  /** Version of demerit. */
  version: string;
  /** What the loop guard does where it acts. */
  guard_mode: "note" | "off" | "refuse";
  /** What is being served, the oldest first. */
  in_flight: InFlight[];
  /** The requests that ended last, at most 20, the newest last. */
  recent: RecentRequest[];
  /** The model servers, in the settings' order. */
  upstreams: UpstreamStatus[];
  /** Every model of which anything was counted, by what requests call it; `(other)` is the rest. */
  models: { [name: string]: ModelStatus };
  /** Requests in wire formats that pass through and are in no counter, by their path. */
  uncounted_paths: { [name: string]: number };
  /** How often a step of the proxy's own failed and was passed over, by its name. */
  stage_failures: { [name: string]: number };
  /** The trips log; null: none is kept. */
  trips_log: TripsLogStatus | null;
}

/** One request that is being served. */
export interface InFlight {
  /** What the request calls it; the path where it is no chat. */
  model: string;
  /** It waits for a place at the upstream, for the first byte, or is being answered. */
  phase: "answering" | "queued" | "waiting";
  /** Seconds since it came. */
  age_s: number;
  /** Whether the client asked for a stream. */
  streaming: boolean;
}

/** Which of the guard's two detectors tripped. */
export type LoopGuardTrip = "loop" | "stagnation";

/** The sixteen counts of one model. A turn is one request and its answer, and counts once in a counter at most. */
export interface ModelDefectCounts {
  /**
   * Requests for this model that were forwarded, or would have been but for the guard. Not counted: bodies that are no
   * JSON, models that no upstream has, embedding models asked to chat, requests that found no place in the queue. A
   * second try at the upstream is the same request.
   */
  requests: number;
  /**
   * Requests that the loop guard acted on: it forwarded them with a note, or refused them. The sum of loop_guard_loops
   * and loop_guard_stagnations, so that adding all three counts each trip twice. Not counted: a noted request that a
   * later check turned away: that is a decision in the trips log, which may hold more than this counter for the same
   * traffic.
   */
  loop_guard_trips: number;
  /**
   * Of these trips, those for calls: the same batch back to back with the same answer, or a batch that is not read-only
   * carried past the read-only limit by changing answers. The two are not told apart, as the remedy is the same. Not
   * counted: text that repeats.
   */
  loop_guard_loops: number;
  /** Of these trips, those for the same text repeated beyond the limit. Not counted: calls that repeat. */
  loop_guard_stagnations: number;
  /**
   * Turns with a tool call that did not conform to its schema and was asked for again, with tool_choice "required" or
   * under a grammar of our own. Not counted: calls that a coercion alone put right, and calls cut off by the limit of
   * tokens. Not measured yet: the proxy will feed it in a coming release.
   */
  repairs_attempted: number;
  /**
   * Of these, the turns whose second answer had a call that conformed as it came. Not counted: one that conformed only
   * after a coercion. Not measured yet: the proxy will feed it in a coming release.
   */
  repairs_succeeded: number;
  /**
   * Streamed turns that the upstream failed in: an error event, a broken byte stream, an unreadable frame, too long a
   * silence, or an end with neither a finish reason nor the end sentinel. The only sign of a model whose output makes
   * its server give up. Not counted: clients that hung up, which is a person's action; what failed before an answer
   * began; whole answers.
   */
  stream_errors: number;
  /**
   * Turns cut off at the limit of tokens: finish reason length, or max_tokens in other wire formats. A long answer may
   * be long; a rising rate is how runaway generation or too small a budget shows first. Not counted: answers that broke
   * off in any other way, and turns whose client had left.
   */
  truncated_generations: number;
  /**
   * Turns that ended and brought nothing that a client can render: no call, image, audio or refusal, and no text but
   * white space. Not counted: turns whose client had left, and turns in stream_errors.
   */
  empty_responses: number;
  /**
   * Of the empty responses, those that brought reasoning. It says why they were empty, and is counted inside
   * empty_responses: adding the two counts a turn twice. Not counted: reasoning beside anything that can be rendered.
   */
  reasoning_only: number;
  /**
   * Turns with markup of tool calls or channels in the text that the client sees: the alarm for a dialect that drifted.
   * Not counted: markup in fenced or inline code, and what a normalization error surfaced. Not measured yet: the proxy
   * will feed it in a coming release.
   */
  dialect_residue: number;
  /**
   * Turns with a call that no verdict was possible on, as its schema is invalid or refers to a remote one; with repair
   * off too. Where it is high, repairs_attempted speaks of a small part of the traffic only. Not counted: turns in
   * which another call did not conform. Not measured yet: the proxy will feed it in a coming release.
   */
  unvalidatable_schemas: number;
  /**
   * Turns with a call in a dialect that began and could not be read, so that its raw body came out as text. Not
   * counted: calls that could be read and do not conform to their schema. Not measured yet: the proxy will feed it in a
   * coming release.
   */
  normalization_errors: number;
  /**
   * Requests whose newest batch of calls repeats an earlier one and got an answer equal to that of the occurrence right
   * before. With or without a trip: it tells of the conversation, and nothing acts on it. Not counted: an answer that
   * changed and changed back (A, B, A), and repeats further back, which were counted when they were new.
   */
  identical_result_repeats: number;
  /**
   * Requests whose newest batch of calls repeats an earlier one, and whose answers could not be compared: an id is
   * missing or there twice, or a call went unanswered. What makes a 0 in identical_result_repeats readable. Not
   * counted: repeats with both answers known, equal or not.
   */
  repeats_not_evaluated: number;
  /**
   * Requests that the guard would have acted on for repeating, and did not because the answer had moved. Far more of
   * these than of identical_result_repeats says that answers carry a clock rather than progress. Not counted: repeats
   * within the limit.
   */
  repeats_rescued: number;
}

/** What was counted for one model. */
export interface ModelStatus {
  /** The sixteen counts. */
  defects: ModelDefectCounts;
  /** What the sixteen are parts of, and what they leave out. */
  turns: ModelTurnCounts;
  /** Every counter over each of its denominators, in the order of the counters. */
  rates: Rate[];
  /** The dialect in which it writes calls; null: none was seen. */
  dialect: string | null;
  /** Some of the markup that dialect_residue counted. */
  residue_samples: string[];
}

/** Of one model, what the sixteen are parts of, and what they leave out; never mixed into them. */
export interface ModelTurnCounts {
  /**
   * Requests that the guard read, counted when they are forwarded or refused. Not counted: everything while the guard
   * is off, and bodies without messages.
   */
  scanned: number;
  /**
   * Requests that were forwarded and answered with an event stream. Not counted: whole answers, and answers with
   * another status than 2xx.
   */
  streamed_turns: number;
  /**
   * Turns whose answer came to an end, a failure included, with the client still there. Not counted: turns whose client
   * had left, turns without an answer, and whole answers that are no JSON.
   */
  completed_turns: number;
  /** Of the completed turns, those with a tool call. */
  tool_turns: number;
  /**
   * Of the turns with a tool call, those in which at least one was judged: valid, or invalid. Not counted: turns whose
   * calls all have schemas that cannot be evaluated. Not measured yet: the proxy will feed it in a coming release.
   */
  validated_turns: number;
  /**
   * Scanned requests whose newest batch of calls has an earlier occurrence in the conversation. Not counted: a newest
   * batch that an earlier request has reported.
   */
  repeats_seen: number;
  /**
   * Forwarded requests whose client hung up before the end of the answer. None of the sixteen counts them. Not counted:
   * a client that had read the end.
   */
  client_aborts: number;
  /**
   * Frames, not turns: pieces of a stream that are no JSON, and whole answers that are none. Not counted: comments and
   * the end sentinel.
   */
  unreadable_frames: number;
  /**
   * Forwarded requests without an answer: the upstream could not be reached, answered with another status than 2xx or
   * with an error in place of a whole answer, or broke off before a whole answer was there. Not counted: a first byte
   * that did not come in time, and what failed within a stream.
   */
  upstream_refusals: number;
  /**
   * Forwarded requests whose answer did not begin in time. Not counted: a silence within an answer, which is one of the
   * stream_errors.
   */
  first_byte_timeouts: number;
  /**
   * Turns with a call that was put right beyond doubt, such as a number sent as text, for the client. Not counted:
   * calls that conformed as they came. Not measured yet: the proxy will feed it in a coming release.
   */
  coercions: number;
  /**
   * Scanned requests whose newest batch goes round in a cycle of two to four batches, three rounds with the same
   * answers. Nothing acts on it. Not counted: one batch repeated, which is a loop.
   */
  cycles: number;
  /**
   * Turns that LoopGuard checked in an agent's own process. Not counted: requests at the proxy, which are in scanned.
   */
  agent_scanned: number;
  /** Of these, the turns that it called a loop. Not counted: the proxy's trips. */
  agent_loops: number;
  /** Of these, the turns that it called a stagnation. Not counted: the proxy's trips. */
  agent_stagnations: number;
}

/**
 * How many of a counter's denominator it counts, with the 95 % interval: Wilson's, each from 0 to 1. There is no value
 * and no interval where that was not measured: the denominator is 0; the guard, which would have seen it, read no
 * request; nothing feeds the counter in this release; or the numerator is larger, as a window was cut through a turn.
 */
export interface Rate {
  /** NUMERATOR/DENOMINATOR, by the names of the counters. */
  name: string;
  /** What the counter counts. */
  numerator: number;
  /** What that is a part of. */
  denominator: number;
  /** The one over the other, from 0 to 1; null: not measured. */
  value: number | null;
  /** Lower end of its 95 % interval (Wilson's); null: not measured. */
  low: number | null;
  /** Upper end of its 95 % interval; null: not measured. */
  high: number | null;
}

/** What became of one request that counted. */
export interface RecentRequest {
  /** When it came. */
  at: string;
  /** What the request calls it. */
  model: string;
  /** Who was asked; null: the guard refused it. */
  upstream: string | null;
  /** Whether the client asked for a stream. */
  streaming: boolean;
  /** The HTTP status that the client got; 0: it left before. */
  status: number;
  /** How it ended. */
  ended:
    | "broken"
    | "clean"
    | "client_left"
    | "first_byte_timeout"
    | "guard_refused"
    | "no_end"
    | "stalled"
    | "stopped"
    | "unreadable_frame"
    | "upstream_error"
    | "upstream_refused";
  /** Which detector of the loop guard acted on it; null: none. */
  trip: LoopGuardTrip | null;
  /** Seconds until the first byte of its answer; null: none came. */
  first_byte_s: number | null;
  /** Seconds that it took. */
  duration_s: number;
}

/** The log that outlives the process. */
export interface TripsLogStatus {
  /** Entries that could not be kept. */
  lost: number;
  /** Entries that are not written yet. */
  pending: number;
}

/** One model server. */
export interface UpstreamStatus {
  /** As the settings call it. */
  name: string;
  /** Its base, without any secret. */
  url: string;
  /** Globs of the models that go to it. */
  models: string[];
  /** Requests that it is serving. */
  in_flight: number;
  /** Requests that wait for a place at it. */
  queued: number;
  /** Requests that it is given at a time; null: no limit. */
  max_inflight: number | null;
  /** How often it gave no answer, or no 2xx, to any request at all. */
  refusals: number;
  /** What it did then, last; null: it never did. */
  last_error: string | null;
}
