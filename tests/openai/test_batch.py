"""Batch files: requests as lines, replies in any order, and lines that answer nothing refused."""

import json

import pytest

from pets.errors import BusyError, JobError, ReplyError
from pets.openai.batch import BatchReplies, BatchReply, NotExecutedError, request_line


def row(custom_id, **fields):
    whole = {"id": "batch_req_1", "custom_id": custom_id, "response": {"status_code": 200, "body": {}}, "error": None}
    return whole | fields


def reply(custom_id, **fields):
    return json.dumps(row(custom_id, **fields)).encode() + b"\n"


def test_a_request_is_one_line_with_an_id_of_its_own():
    rows = [json.loads(request_line((seed, 2), "/v1/chat/completions", {"messages": ["a\nb"]})) for seed in (7, 9)]
    assert [row["custom_id"] for row in rows] == ["7-2", "9-2"]
    assert {row["method"] for row in rows} == {"POST"} and rows[0]["body"] == {"messages": ["a\nb"]}


def test_replies_are_found_by_their_id_in_any_order_and_from_several_files():
    with BatchReplies({"1-1", "2-1", "3-1"}) as replies:
        replies.add([reply("2-1", response={"status_code": 200, "body": {"n": 2}}), b"\n"], "output")
        replies.add([reply("1-1", response={"status_code": 429, "body": {"error": {}}})], "errors")
        assert (len(replies), replies.get("2-1"), replies.get("3-1")) == (2, BatchReply(200, b'{"n": 2}'), None)
        assert replies.get("1-1").status == 429


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([reply("9-9")], r"out line 1: the custom_id '9-9' is not of this job"),
        ([reply("1-1"), reply("1-1")], r"out line 2: the custom_id '1-1' came before"),
        ([reply("1-1")[:30]], "out line 1: no JSON object with a custom_id. Is the file whole"),
        ([b"[]"], "no JSON object"),
        ([b'{"custom_id": ["x"]}'], "not of this job|no JSON object"),
    ],
)
def test_a_line_that_answers_no_request_is_refused(lines, words):
    with BatchReplies({"1-1"}) as replies, pytest.raises(JobError, match=words):
        replies.add(lines, "out")


def test_why_a_line_failed_is_read_as_openai_and_as_vllm_say_it():
    openai = BatchReply.of(row("1-1", response={"status_code": 400, "body": {"error": {"message": "Too long."}}}))
    vllm = BatchReply.of(row("1-1", response={"status_code": 400, "body": None}, error="Too long."))
    assert (
        (openai.status, vllm.status) == (400, 400) and b"Too long." in openai.content and b"Too long." in vllm.content
    )


def test_replies_count_errors_and_keep_the_first():
    nested = {"error": {"message": "Too long.", "type": "BadRequestError", "param": None, "code": 400}}
    refused = {"status_code": 400, "request_id": "vllm-batch-1", "body": None}
    with BatchReplies({"1-1", "2-1", "3-1"}) as replies:
        replies.add([reply("1-1"), reply("2-1", response=refused, error=nested)], "out")
        replies.add([reply("3-1", response=None, error={"code": "batch_expired", "message": "Late."})], "errors")
        assert (replies.failed, replies.first_error) == (2, "Too long.")


def test_a_line_that_was_never_executed_is_free_and_any_other_without_a_status_is_not():
    expired = BatchReply.of(row("1-1", response=None, error={"code": "batch_expired", "message": "Late."})).failure()
    assert isinstance(expired, NotExecutedError) and isinstance(expired, BusyError) and expired.reason == "expired"
    odd = BatchReply.of(row("1-1", response=None, error={"code": "server_error", "message": "Oops."})).failure()
    assert isinstance(odd, ReplyError) and "Oops." in str(odd)
