"""What each reader makes of its format, and what it says about rows that it cannot take."""

import json

import pytest

from dice import SeededDice
from tidegate.core.outcomes import MEANING, Outcome
from tidegate.workload.arrival import Arrival
from tidegate.workload.builder import TraceBuilder
from tidegate.workload.formats import (
    LOOKS,
    Format,
    UnreadableTrace,
    azure_functions,
    azure_llm,
    burstgpt,
    gateway_log,
    jsonl,
    mooncake,
    named_csv,
    read,
    servegen,
)
from tidegate.workload.formats.gateway_log import NO_DEMAND


def jsonlines(*rows):
    return "\n".join(json.dumps(row) for row in rows)


def test_azure_moments_count_from_the_first_row_to_the_last_digit():
    reading = azure_llm.read(
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        "2023-11-16 23:59:59.9999999,374,44\r\n"
        "2023-11-17 00:00:00.0000001,396,109\r\n"
    )

    assert list(reading.trace) == [Arrival(0.0, 374, 44), Arrival(2e-7, 396, 109)]


def test_azure_stamps_with_a_zone_are_read_too():
    trace = azure_llm.read(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2024-05-10 00:00:00.009930+00:00,2162,5\n"
        "2024-05-10 02:00:01.009930+02:00,2399,6\n"
    ).trace

    assert list(trace.arrived_s) == [0.0, 1.0]


def test_broken_rows_are_counted_and_named_by_line():
    reading = azure_llm.read(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.68,374,44\n"
        "\n"
        "2023-11-16 18:15:61.68,374,44\n"
        "2023-11-16 18:15:50.99,many,109\n"
        "2023-11-16 18:15:51.99,396\n"
        "2023-02-29 18:15:51.99,396,1\n"
        "2023-11-16 18:15:52.68,-1,44\n"
    )

    assert len(reading.trace) == 1
    assert list(reading.broken.lines) == [4, 5, 6, 7, 8]
    assert reading.broken.reasons == [
        "time stamp is '2023-11-16 18:15:61.68'; there is no such moment",
        "ContextTokens is 'many'; a number was expected",
        "2 cells where the header has 3",
        "time stamp is '2023-02-29 18:15:51.99'; there is no such moment",
        "prompt_tokens is -1; it must be from 0 to 2147483647",
    ]
    assert str(reading.broken).startswith("5 broken rows: line 4: time stamp is")


def test_many_broken_rows_are_all_counted_and_some_are_told():
    broken = named_csv.read(["arrived_s,prompt_tokens,output_tokens", *["x,1,1"] * 1_000]).broken

    assert len(broken) == len(broken.lines) == 1_000
    assert str(broken).endswith("; and 995 more")


def test_burstgpt_answers_of_no_tokens_are_failures_of_unknown_length():
    trace = burstgpt.read(
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,17,3.2,ChatGPT,472,18,490,Conversation log\n"
        "45,,0,GPT-4,1087,0,1087,API log\n"
    ).trace

    assert list(trace) == [
        Arrival(5.0, 472, 18, model="ChatGPT", session="17"),
        Arrival(45.0, 1_087, None, model="GPT-4"),
    ]


def test_mooncake_moments_are_milliseconds():
    trace = mooncake.read(
        jsonlines(
            {"timestamp": 27_482, "input_length": 655, "output_length": 52, "hash_ids": [46, 47]},
            {"timestamp": 27_482.5, "input_length": 6, "output_length": 5, "session_id": "a"},
        )
    ).trace

    assert list(trace) == [
        Arrival(27.482, 655, 52, prefix_hashes=(46, 47)),
        Arrival(27.4825, 6, 5, session="a"),
    ]


def test_a_mooncake_file_cannot_say_that_a_length_is_not_known():
    builder = TraceBuilder()
    builder.add(0.0, 10, None)

    with pytest.raises(ValueError, match="needs every length"):
        list(mooncake.lines(builder.build()))


def test_vllm_style_lines_count_from_the_first():
    trace = jsonl.read(
        jsonlines(
            {"request_id": "b0", "input_toks": 2_358, "output_toks": 531, "arrival_time": 1_787_267_980.25},
            {"request_id": "b1", "input_toks": 1_034, "output_toks": 769, "arrival_time": 1_787_267_980.75},
        )
    ).trace

    assert list(trace) == [Arrival(0.0, 2_358, 531), Arrival(0.5, 1_034, 769)]


def test_aiperf_records_are_read_without_their_warm_up():
    def record(phase, start_ns, metrics):
        return {
            "metadata": {"benchmark_phase": phase, "request_start_ns": start_ns, "conversation_id": "c1"},
            "metrics": metrics,
        }

    lengths = {
        "input_sequence_length": {"value": 550, "unit": "tokens"},
        "output_sequence_length": {"value": 31.0, "unit": "tokens"},
    }
    reading = jsonl.read(
        jsonlines(
            record("warmup", 1_700_000_000_000_000_000, lengths),
            record("profiling", 1_700_000_009_000_000_001, lengths),
            record("profiling", 1_700_000_009_250_000_001, {}),
        )
    )

    assert list(reading.trace) == [
        Arrival(0.0, 550, 31, session="c1"),
        Arrival(0.25, None, None, session="c1"),
    ]
    assert reading.left_out == 1


def test_lines_with_our_own_words_keep_their_moments():
    trace = jsonl.read(
        jsonlines(
            {
                "arrived_s": 2.5,
                "prompt_tokens": 10,
                "output_tokens": None,
                "tenant": "t",
                "priority": 3,
                "adapter": "lora-1",
                "deadline_s": 30,
                "cached_tokens": 4,
                "prefix_hashes": [1],
            }
        )
    ).trace

    assert list(trace) == [
        Arrival(
            2.5,
            10,
            None,
            tenant="t",
            priority=3,
            adapter="lora-1",
            deadline_s=30.0,
            cached_tokens=4,
            prefix_hashes=(1,),
        )
    ]


def test_lines_of_a_clock_and_lines_of_a_start_do_not_mix():
    reading = jsonl.read(
        jsonlines(
            {"arrived_s": 1, "prompt_tokens": 1, "output_tokens": 1},
            {"arrival_time": 1_787_267_980, "prompt_tokens": 1, "output_tokens": 1},
            {"prompt_tokens": 1, "output_tokens": 1},
        )
    )

    assert list(reading.broken.lines) == [2, 3]
    assert reading.broken.reasons[0] == "arrival_time is of another kind than the moments of the rows before"


def log_line(outcome, at_s, output_tokens=7):
    return {
        "arrived_s": at_s,
        "request_id": "r1",
        "model": "chat",
        "flow": "team-a",
        "outcome": outcome.value,
        "replica_id": "chat-1",
        "attempts": 1,
        "queued_s": 0.1,
        "ttft_s": 0.4,
        "e2e_s": 1.5,
        "prompt_tokens": 40,
        "output_tokens": output_tokens,
    }


def test_every_request_in_our_log_that_a_fleet_could_serve_is_demand():
    reading = gateway_log.read(
        jsonlines(*(log_line(outcome, 100.0 + n) for n, outcome in enumerate(Outcome)))
    )

    assert reading.left_out == len(NO_DEMAND) == 4
    assert len(reading.trace) == len(Outcome) - 4
    assert reading.trace[0] == Arrival(0.0, 40, 7, model="chat", tenant="team-a")
    # A length that an ending has cut short is no length to simulate with.
    assert [row.output_tokens for row in reading.trace][1:] == [None] * (len(reading.trace) - 1)


def test_no_demand_are_the_mistakes_that_no_retry_helps():
    assert {outcome for outcome, meaning in MEANING.items() if 400 <= meaning.status < 420} == NO_DEMAND


def test_an_unknown_outcome_is_broken_and_the_known_ones_are_named():
    reading = gateway_log.read(jsonlines({**log_line(Outcome.COMPLETED, 1.0), "outcome": "fine"}))

    assert reading.broken.reasons[0].startswith("outcome is 'fine'; one of completed, rejected_invalid")


def test_our_csv_has_its_columns_in_any_order_and_passes_others_by():
    reading = named_csv.read(
        "tenant, output_tokens,note,arrived_s,prompt_tokens,prefix_hashes\n"
        'a,44,"left, out",0.5,374,7 8\n'
        ",,,1.5,,\n"
        'b,1,"left open,2.5,1,\n'
        "c,1,,3.5,1,7;8\n"
        "d,1,,4.5,1.0,18446744073709551615\n"
    )

    assert list(reading.trace) == [
        Arrival(0.5, 374, 44, tenant="a", prefix_hashes=(7, 8)),
        Arrival(1.5, None, None),
        Arrival(4.5, 1, 1, tenant="d", prefix_hashes=(2**64 - 1,)),
    ]
    assert list(reading.broken.lines) == [4, 5]


def test_a_file_without_our_columns_is_unreadable_and_says_which_it_has():
    with pytest.raises(UnreadableTrace, match="there is no column 'arrived_s'; the columns are when, what"):
        named_csv.read("when,what\n1,2\n")
    with pytest.raises(UnreadableTrace, match="the file is empty"):
        named_csv.read("")


def test_function_minutes_become_moments_within_each_minute():
    reading = azure_functions.read(
        "HashOwner,HashApp,HashFunction,Trigger,480,481,482\no1,a1,f1,http,2,0,1\no1,a1,f2,timer,0,x,0\n",
        SeededDice(1),
    )

    assert [int(moment // 60) for moment in reading.trace.arrived_s] == [0, 0, 2]
    assert reading.trace[0].model == "f1"
    assert reading.trace[0].tenant == "o1"
    assert reading.broken.reasons == ["481 is 'x'; a number was expected"]


def test_function_calls_begin_before_they_end():
    trace = azure_functions.read("app,func,end_timestamp,duration\na,f,10,8\na,g,5,1\n", SeededDice(1)).trace

    assert [(row.arrived_s, row.model) for row in trace] == [(0.0, "f"), (2.0, "g")]


def test_servegen_tables_name_what_is_broken():
    rates, rates_broken = servegen.read_rates("ts_s,rate_rps\n0,2\n1200,4\n600,x\n0,9\n700,1\n")
    clients, clients_broken = servegen.read_clients(
        "client,ts_s,rate_rps,cv,arrival,p1,p2\n0,0,1,2,Gamma,0.5,1\n0,600,1,2,Pareto,0.5,1\n1,0,0,2,Gamma,0.5,1\n"
    )
    lengths, lengths_broken = servegen.read_lengths(
        "field,window_s,bin_lo,bin_hi,expected_requests\ninput_tokens,0,5,3,1\ninput_tokens,0,3,5,1\n"
    )

    assert rates_broken.reasons == [
        "rate_rps is 'x'; a number was expected",
        "slot 0 is there twice",
        "ts_s is 700; slots start at multiples of 600",
    ]
    assert rates.curve.expected == 600 * 2 + 600 * 4  # nothing in the slot that is missing
    assert rates.curve.rate_after(700.0) == 0.0
    assert clients_broken.reasons == [
        "arrival is 'Pareto'; it must be Gamma or Weibull",
        "rate_rps is 0; it must be above 0",
    ]
    assert list(clients.slots) == ["0"]
    assert lengths_broken.reasons == ["the bin goes from 5 to 3"]
    assert lengths.whole("input_tokens").mean == 4.0


def test_more_requests_than_fit_are_refused_with_the_scale_that_would_do():
    with pytest.raises(
        UnreadableTrace, match=r"that is 6e\+10 requests, .*; scale the rate by 0.00083 or less"
    ):
        read("ts_s,rate_rps\n0,100000000\n", SeededDice(0))
    with pytest.raises(UnreadableTrace, match=r"that is 2e\+09 requests"):
        read("HashOwner,HashApp,HashFunction,Trigger,1\no,a,f,http,2000000000\n", SeededDice(0))


def test_a_format_that_is_not_clear_is_an_error_that_lists_them_all():
    with pytest.raises(UnreadableTrace) as refused:
        read("when,what\n1,2\n", SeededDice(0))

    assert "'when,what'" in str(refused.value)
    assert LOOKS.keys() == set(Format)
    for form, look in LOOKS.items():
        assert f"{form.value}: {look}" in str(refused.value)


def test_a_broken_first_line_does_not_hide_the_format():
    reading = read(
        ['{"timestamp": 0, "inp', jsonlines({"timestamp": 1, "input_length": 2, "output_length": 3})],
        SeededDice(0),
    )

    assert len(reading.trace) == 1
    assert list(reading.broken.lines) == [1]


def test_a_byte_order_mark_is_not_part_of_a_name():
    assert len(read("\ufeffarrived_s,prompt_tokens,output_tokens\n1,2,3\n", SeededDice(0)).trace) == 1


def test_a_recorded_trace_is_scaled_while_it_is_read():
    lines = ["arrived_s,prompt_tokens,output_tokens", *(f"{number},1,1" for number in range(1_000))]

    assert len(read(lines, SeededDice(0), rate_scale=0.1).trace) == 100
    assert len(read(lines, SeededDice(0), rate_scale=2.5).trace) == 2_500


def test_a_moment_that_nobody_lives_to_see_is_a_broken_row():
    azure = [
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "2023-11-16 18:15:46.5,10,2",
        "9999-12-31 23:59:59,10,2",
    ]
    found = read(azure, SeededDice(0))
    assert (len(found.trace), list(found.broken.lines)) == (1, [3])
    assert "it must be within 3.2e+09 s, a hundred years" in str(found.broken)

    calls = ["app,func,end_timestamp,duration", "a,f,1e308,1", "a,f,5,1e300", "a,f,5,1"]
    found = read(calls, SeededDice(0))
    assert (len(found.trace), list(found.broken.lines)) == (1, [2, 3])


def test_two_columns_of_one_name_are_no_column():
    rows = ["arrived_s,Arrived_S,prompt_tokens,output_tokens", "0,1,2,3"]
    with pytest.raises(UnreadableTrace, match="there is more than one column 'arrived_s'"):
        read(rows, SeededDice(0), Format.CSV)
