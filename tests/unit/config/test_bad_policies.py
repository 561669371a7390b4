"""Each kind of mistake, as somebody would make it, and the exact words it is answered with."""

import textwrap

import pytest

from tidegate.config import PolicyError, parse
from tidegate.core.scaling_settings import ScalingPolicy
from tidegate.engine.catalogue import PROFILES

SHA = "ab" * 32
OTHER_SHA = "cd" * 32

DURATION = "a duration from 100ms to 1d, such as 250ms, 90s, 5m or 1h30m"
ENGINES = "llamacpp, vllm, sglang, trtllm, openai, emulated"
NAME_RULE = "it must be up to 200 letters, digits and . _ - / : and begin with a letter or digit"
MODEL = "models: {m: {engine: vllm, weights: org/model}}"
SPILL = (
    "models: {{m: {{engine: vllm, weights: a/b, spill: {{model: x, key_env: KEY, prompt_price: 0.1/M, "
    "output_price: 0.4/M, {more}}}}}}}"
)
LAWS = ", ".join(policy.value for policy in ScalingPolicy)

KINDS = {
    "an unknown key": (
        f"gateway: {{prot: 8400}}\n{MODEL}",
        "line 1: gateway.prot is not a known key; did you mean port?",
    ),
    "an unknown key like no other": (
        f"journal: {{colour: red}}\n{MODEL}",
        "line 1: journal.colour is not a known key; known are dir, max_size",
    ),
    "a known key in the wrong place": (
        "models: {m: {engine: vllm, weights: org/model, min_replicas: 1}}",
        "line 1: models.m.min_replicas is not a known key; it belongs at models.m.scaling.min_replicas",
    ),
    "a known key of every model at the top": (
        f"slots: 8\n{MODEL}",
        "line 1: slots is not a known key; it belongs at models.NAME.slots",
    ),
    "a spill over the open net": (
        SPILL.format(more="address: http://api.example.com/v1"),
        (
            "line 1: models.m.spill.address is http://api.example.com/v1; prompts and the key would leave this machine in "
            "the clear; use https://, or http:// with loopback"
        ),
    ),
    "a spill with a password in its address": (
        SPILL.format(more="address: 'https://me:secret@api.example.com/v1'"),
        (
            "line 1: models.m.spill.address is (hidden); it must be https://HOST/PATH and nothing more; http:// only for "
            "loopback"
        ),
    ),
    "a spill to no port": (
        SPILL.format(more="address: https://api.example.com:0/v1"),
        (
            "line 1: models.m.spill.address is https://api.example.com:0/v1; it must be https://HOST/PATH; a port, if "
            "there is one, from 1 to 65535"
        ),
    ),
    "a key in place of its variable": (
        SPILL.format(more="address: https://a.example/v1").replace("KEY", "sk-12-34"),
        (
            "line 1: models.m.spill.key_env is (hidden); it must be the name of an environment variable, never the key "
            "itself: letters, digits and _"
        ),
    ),
    "a spill without a price": (
        SPILL.format(more="address: https://a.example/v1").replace(", output_price: 0.4/M", ""),
        (
            "line 1: models.m.spill.output_price is missing; it must be a price per million tokens such as 0.40/M, up to "
            "1000000/M"
        ),
    ),
    "a price per token without a unit": (
        SPILL.format(more="address: https://a.example/v1").replace("0.4/M", "0.4"),
        (
            "line 1: models.m.spill.output_price is 0.4; it must be a price per million tokens such as 0.40/M, up to "
            "1000000/M; it has no unit: write 0.4/M if you mean that"
        ),
    ),
    "a key written twice": (
        "models:\n  m:\n    engine: vllm\n    weights: org/model\n    engine: sglang",
        "line 5: models.m.engine is written twice, first on line 3; keep one",
    ),
    "a model written twice": (
        "models:\n  m: {engine: vllm, weights: a/b}\n  m: {engine: vllm, weights: c/d}",
        "line 3: models.m is written twice, first on line 2; keep one",
    ),
    "no YAML": (
        "models:\n  m: {engine: vllm",
        "line 2: this is not YAML: expected ',' or '}', but got '<stream end>' (column 19)",
    ),
    "a tab": (
        "models:\n\tm: {engine: vllm}",
        "line 2: this is not YAML: found character '\\t' that cannot start any token (column 1)",
    ),
    "a control character": ("models: \x00", "line 1: this is not YAML: control character"),
    "two documents": (
        f"{MODEL}\n---\n{MODEL}",
        "line 2: this is not YAML: but found another document (column 1)",
    ),
    "a tag": (
        "models: {m: {engine: !!python/name:os.system '', weights: a/b}}",
        "line 1: models.m.engine has a YAML tag; plain values only",
    ),
    "an alias inside itself": ("models: &a {m: *a}", "line 1: models.m refers to itself"),
    "a key that is a list": (f"{MODEL}\n? [a]\n: b", "line 2: each key must be a word"),
    "an empty file": ("# nothing yet\n", "the file is empty; it must hold at least models"),
    "a list as the file": ("- models", "the file is a list; it must be a mapping of settings"),
    "no models": (
        "gateway: {port: 9000}",
        "models is missing or empty; a policy needs at least one model",
    ),
    "models without one": ("models:", "line 1: models is empty; it must be a mapping"),
    "a model without settings": (
        "models:\n  m:",
        "line 2: models.m is empty; it must be a mapping of settings",
    ),
    "a model without an engine": (
        "models: {m: {weights: a/b}}",
        f"line 1: models.m.engine is missing; it must be one of {ENGINES}",
    ),
    "an unknown engine": (
        "models: {m: {engine: vlm, weights: a/b}}",
        f"line 1: models.m.engine is vlm; it must be one of {ENGINES}; did you mean vllm?",
    ),
    "a model name with a space": (
        "models: {my model: {engine: vllm, weights: a/b}}",
        f"line 1: models.my model has a name that cannot be used; {NAME_RULE}",
    ),
    "a model name that climbs": (
        "models: {../m: {engine: vllm, weights: a/b}}",
        f"line 1: models.../m has a name that cannot be used; {NAME_RULE}",
    ),
    "a port out of range": (
        f"gateway: {{port: 70000}}\n{MODEL}",
        "line 1: gateway.port is 70000; it must be a whole number from 0 to 65535",
    ),
    "a word for a number": (
        f"gateway: {{max_connections: many}}\n{MODEL}",
        "line 1: gateway.max_connections is many; it must be a whole number from 1 to 1000000",
    ),
    "a truth value for a number": (
        "models: {m: {engine: vllm, weights: a/b, slots: true}}",
        "line 1: models.m.slots is true; it must be a whole number from 1 to 100000",
    ),
    "a fraction of a replica": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {max_replicas: 2.5}}}",
        "line 1: models.m.scaling.max_replicas is 2.5; it must be a whole number from 1 to 10000",
    ),
    "a negative number": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {min_replicas: -1}}}",
        "line 1: models.m.scaling.min_replicas is -1; it must be a whole number from 0 to 10000",
    ),
    "a queue without room": (
        "models: {m: {engine: vllm, weights: a/b, queue: {max_requests: 0}}}",
        "line 1: models.m.queue.max_requests is 0; it must be a whole number from 1 to 10000000",
    ),
    "more warm replicas than there may be": (
        "models: {m: {engine: vllm, weights: a/b, pool: {min_warm: 3, max_warm: 2}}}",
        "line 1: models.m.pool.min_warm is 3; it must be at most max_warm, which is 2",
    ),
    "sleepers of an engine that cannot sleep": (
        "models: {m: {engine: sglang, weights: a/b, pool: {max_sleeping: 1}}}",
        "line 1: models.m.pool.max_sleeping is 1; it must be 0 with engine sglang, which cannot sleep",
    ),
    "events of engines that are started here": (
        "models: {m: {engine: vllm, weights: a/b, kv_events_port: 5557}}",
        "line 1: models.m.kv_events_port is 5557; it needs static, the addresses of engines that publish there",
    ),
    "events of two engines at one host": (
        "models: {m: {engine: vllm, static: ['http://h:1', 'http://h:2'], kv_events_port: 5557}}",
        (
            "line 1: models.m.kv_events_port is 5557; every address in static must then have a host of its own, for all "
            "publish at this port"
        ),
    ),
    "a variant with the name of the model's own settings": (
        "models: {m: {engine: vllm, weights: a/b, price: 1/h, variants: {default: {slots: 4}}}}",
        "line 1: models.m.variants.default is what the model's own settings are called; it needs another name",
    ),
    "variants of a model without a price": (
        "models: {m: {engine: vllm, weights: a/b, variants: {small: {price: 1/h}}}}",
        "line 1: models.m.price must be above 0/h with variants; of a model's variants the cheapest is chosen",
    ),
    "a variant for nothing": (
        "models: {m: {engine: vllm, weights: a/b, price: 1/h, variants: {small: {price: 0/h}}}}",
        "line 1: models.m.variants.small.price must be above 0/h; of a model's variants the cheapest is chosen",
    ),
    "a variant on a kind of GPU that is not there": (
        (
            "fleet: {gpus: [{index: 0, kind: h100}]}\n"
            "models: {m: {engine: vllm, weights: a/b, gpus: 1, price: 1/h, variants: {small: {kind: l40s}}}}"
        ),
        "line 2: models.m.variants.small.kind is l40s; 0 devices in fleet.gpus are of that kind, and a replica needs 1",
    ),
    "a variant that could never be paid": (
        "fleet: {max_cost: 2.00/h}\nmodels: {m: {engine: vllm, weights: a/b, price: 1/h, variants: {big: {price: 3/h}}}}",
        "line 2: models.m.variants.big.price is 3.00/h; it must be at most fleet.max_cost, which is 2.00/h",
    ),
    "a variant that costs more in the pool than while it serves": (
        "models: {m: {engine: vllm, weights: a/b, price: 2/h, pool: {max_warm: 1, warm_price: 1/h}, variants: {small: {price: 0.50/h}}}}",
        "line 1: models.m.variants.small.price is 0.50/h; nothing in its pool may cost more, and there is 1.00/h",
    ),
    "a pool shared by models with other variants": (
        "models:\n  m: {engine: vllm, weights: a/b, price: 2/h, pool: {max_warm: 1, group: g}, variants: {small: {slots: 4, price: 1/h}}}\n  n: {engine: vllm, weights: a/b, price: 2/h, pool: {max_warm: 1, group: g}, variants: {small: {slots: 2, price: 1/h}}}",
        "line 3: models.n.pool.group is g; variants must be the same as that of m, with which it shares its replicas",
    ),
    "a variant without addresses where the model has some": (
        "models: {m: {engine: vllm, static: ['http://h:1'], price: 1/h, variants: {small: {slots: 4}}}}",
        "line 1: models.m.variants.small needs static, as the model has it: which of the engines run in this way",
    ),
    "a variant with addresses where the model has none": (
        "models: {m: {engine: vllm, weights: a/b, price: 1/h, variants: {small: {static: ['http://h:1']}}}}",
        "line 1: models.m.variants.small.static has no meaning where the model has no static; leave it out",
    ),
    "an address of two variants": (
        "models: {m: {engine: vllm, static: ['http://h:1'], price: 1/h, variants: {small: {static: ['http://h:1']}}}}",
        "line 1: models.m.variants.small.static[0] is http://h:1; models.m.static[0] has this address already",
    ),
    "a secret in a variant's arguments": (
        "models: {m: {engine: vllm, weights: a/b, price: 1/h, variants: {small: {args: sk-live-1234}}}}",
        "line 1: models.m.variants.small.args is (hidden); it must be a list, such as [a, b]",
    ),
    "a pool of engines that someone else runs": (
        "models: {m: {engine: vllm, static: ['http://h:1'], pool: {max_warm: 1}}}",
        "line 1: models.m.pool cannot stand together with static, an engine that someone else runs; leave one out",
    ),
    "a pool shared by different weights": (
        "models:\n  m: {engine: vllm, weights: a/b, pool: {max_warm: 1, group: g}}\n  n: {engine: vllm, weights: c/d, pool: {max_warm: 1, group: g}}",
        "line 3: models.n.pool.group is g; weights must be the same as that of m, with which it shares its replicas",
    ),
    "a day's money per hour": (
        f"fleet: {{max_cost_per_day: 60/h}}\n{MODEL}",
        "line 1: fleet.max_cost_per_day is 60/h; it must be a sum per day such as 60/d, up to 10000000/d",
    ),
    "a duration without unit": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {window: 10}}}",
        f"line 1: models.m.scaling.window is 10; it must be {DURATION}; it has no unit: write 10s if you mean that",
    ),
    "a duration of no meaning": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {window: 5 minutes}}}",
        f"line 1: models.m.scaling.window is 5 minutes; it must be {DURATION}",
    ),
    "a duration that is too short": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {window: 5ms}}}",
        f"line 1: models.m.scaling.window is 5ms; it must be {DURATION}",
    ),
    "a size in steps of 1000": (
        f"journal: {{max_size: 16GB}}\n{MODEL}",
        (
            "line 1: journal.max_size is 16GB; it must be a size from 1MiB to 1024GiB, such as 512MiB or 16GiB; "
            "units are B, KiB, MiB, GiB and TiB, steps of 1024"
        ),
    ),
    "a size without unit": (
        f"journal: {{max_size: 256}}\n{MODEL}",
        (
            "line 1: journal.max_size is 256; it must be a size from 1MiB to 1024GiB, such as 512MiB or 16GiB; "
            "it has no unit: write 256MiB if you mean that"
        ),
    ),
    "a price without unit": (
        f"fleet: {{max_cost: 12.5}}\n{MODEL}",
        (
            "line 1: fleet.max_cost is 12.5; it must be a price per hour such as 2.50/h, up to 1000000/h; "
            "it has no unit: write 12.5/h if you mean that"
        ),
    ),
    "a target of nothing": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {concurrency_target: 0}}}",
        "line 1: models.m.scaling.concurrency_target is 0; it must be a number above 0 and up to 1000000, or auto",
    ),
    "a share above one": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {policy: thresholds, thresholds: {max_gpu_utilization: 85}}}}",
        "line 1: models.m.scaling.thresholds.max_gpu_utilization is 85; it must be a number from 0 to 1",
    ),
    "an unknown routing": (
        "models: {m: {engine: vllm, weights: a/b, routing: least_token}}",
        (
            "line 1: models.m.routing is least_token; it must be one of least_seconds, least_tokens, round_robin; "
            "did you mean least_tokens?"
        ),
    ),
    "an unknown law": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {policy: magic}}}",
        f"line 1: models.m.scaling.policy is magic; it must be one of {LAWS}",
    ),
    "a constant of another law": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {policy: kpa, law: {target: 8}}}}",
        (
            "line 1: models.m.scaling.law.target is 8.0; kpa has no such constant; it has limit, utilization, stable_window, "
            "panic_window, panic_ratio, up_rate, down_rate, scale_down_delay, grace_delay, every"
        ),
    ),
    "a constant without its unit": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {policy: ray, law: {up_delay: 30}}}}",
        "line 1: models.m.scaling.law.up_delay is 30.0; it must be a duration, such as 90s",
    ),
    "a constant that is divided by": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {policy: ray, law: {target: 0}}}}",
        "line 1: models.m.scaling.law.target is 0.0; it must be above 0",
    ),
    "a share in percent": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {law: {risk: 3}}}}",
        "line 1: models.m.scaling.law.risk is 3.0; it is a share, 1 at most",
    ),
    "constants for a law without any": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {policy: concurrency, law: {target: 8}}}}",
        "line 1: models.m.scaling.law has no meaning with policy concurrency, which has no constants; leave it out",
    ),
    "a law named twice": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {policy: queue, also: [slo, queue]}}}",
        "line 1: models.m.scaling.also[1] is queue; it is named already; each law counts once",
    ),
    "a law beside it that there is not": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {policy: queue, also: [forecasts]}}}",
        f"line 1: models.m.scaling.also[0] is forecasts; it must be one of {LAWS}; did you mean forecast?",
    ),
    "a constant that the law beside it does not have": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {also: [queue, 'kpa:target=8']}}}",
        (
            "line 1: models.m.scaling.also[1] is kpa:target=8; target is 8; kpa has no such constant; it has limit, "
            "utilization, stable_window, panic_window, panic_ratio, up_rate, down_rate, scale_down_delay, grace_delay, every"
        ),
    ),
    "a constant twice": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {also: ['ray:target=1,target=2']}}}",
        "line 1: models.m.scaling.also[0] is ray:target=1,target=2; target is there twice",
    ),
    "several laws in one place": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {also: [queue + slo]}}}",
        "line 1: models.m.scaling.also[0] is queue + slo; it must be one law; each has a place of its own in the list",
    ),
    "the same law beside itself": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {policy: ray, also: ['ray:target=8']}}}",
        "line 1: models.m.scaling.also[0] is ray; it is named already; each law counts once",
    ),
    "a forecast by itself": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {policy: forecast}}}",
        (
            "line 1: models.m.scaling.also is missing; with policy forecast nothing else asks for replicas before a "
            "forecast has proven itself"
        ),
    ),
    "a shadow with a constant of another kind": (
        "models: {m: {engine: vllm, weights: a/b, shadow: 'ray:up_delay=30'}}",
        "line 1: models.m.shadow is ray:up_delay=30; up_delay is 30; it must be a duration, such as 90s",
    ),
    "a shadow of which one law is none": (
        "models: {m: {engine: vllm, weights: a/b, shadow: kpa + magic}}",
        f"line 1: models.m.shadow is kpa + magic; 'magic' is no law; it must be one of {LAWS}",
    ),
    "a schedule beyond the maximum": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {max_replicas: 2, schedule: [{replicas: 3}]}}}",
        "line 1: models.m.scaling.schedule[0].replicas is 3; it must be at most max_replicas, which is 2",
    ),
    "a span of days without an end": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {schedule: [{replicas: 1, days: mon-}]}}}",
        (
            "line 1: models.m.scaling.schedule[0].days is mon-; it must be daily, or days and spans of days of mon, tue, "
            "wed, thu, fri, sat, sun, such as mon-fri or tue,sat"
        ),
    ),
    "cron without a schedule": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {policy: cron}}}",
        "line 1: models.m.scaling.schedule is missing; with policy cron nothing else asks for replicas",
    ),
    "days that are none": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {schedule: [{replicas: 1, days: weekdays}]}}}",
        (
            "line 1: models.m.scaling.schedule[0].days is weekdays; it must be daily, or days and spans of days of mon, tue, "
            "wed, thu, fri, sat, sun, such as mon-fri or tue,sat"
        ),
    ),
    "an hour that is none": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {schedule: [{replicas: 1, from: '25:00'}]}}}",
        'line 1: models.m.scaling.schedule[0].from is 25:00; it must be a time of day from 00:00 to 24:00, such as "08:30"',
    ),
    "a time zone that is none": (
        f"fleet: {{timezone: Europe/Atlantis}}\n{MODEL}",
        "line 1: fleet.timezone is Europe/Atlantis; no time zone of this name is known on this machine",
    ),
    "a word for a list": (
        "models: {m: {engine: vllm, weights: a/b, args: --enforce-eager}}",
        "line 1: models.m.args is (hidden); it must be a list, such as [a, b]",
    ),
    "a number for a path": (
        f"fleet: {{state_dir: 7}}\n{MODEL}",
        "line 1: fleet.state_dir is 7; it must be a path; put it in quotation marks",
    ),
    "an environment variable with a space": (
        "models: {m: {engine: vllm, weights: a/b, env: {A B: c}}}",
        (
            "line 1: models.m.env.A B has a name that cannot be used; "
            "it must be the name of an environment variable: letters, digits and _"
        ),
    ),
    "more at least than at most": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {min_replicas: 4, max_replicas: 2}}}",
        "line 1: models.m.scaling.min_replicas is 4; it must be at most max_replicas, which is 2",
    ),
    "more at least than the default at most": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {min_replicas: 2}}}",
        "line 1: models.m.scaling.min_replicas is 2; it must be at most max_replicas, which is 1",
    ),
    "an open door": (
        f"gateway: {{host: 0.0.0.0}}\n{MODEL}",
        (
            "line 1: gateway.host is 0.0.0.0; Tidegate refuses to bind elsewhere than loopback without a key; "
            "add gateway.keys or use 127.0.0.1"
        ),
    ),
    "an open back door": (
        f"gateway: {{admin_host: '::'}}\n{MODEL}",
        (
            "line 1: gateway.admin_host is ::; the admin pages ask for no key, so they are served on loopback only; "
            "use 127.0.0.1, and a proxy with a password for anybody else"
        ),
    ),
    "a back door that keys do not lock": (
        f"gateway: {{admin_host: 10.0.0.1, keys: [{{sha256: {'a' * 64}, name: a}}]}}\n{MODEL}",
        (
            "line 1: gateway.admin_host is 10.0.0.1; the admin pages ask for no key, so they are served on loopback "
            "only; use 127.0.0.1, and a proxy with a password for anybody else"
        ),
    ),
    "a device without a number": (
        f"fleet: {{gpus: [{{memory: 80GiB}}]}}\n{MODEL}",
        (
            "line 1: fleet.gpus[0] is a mapping; it must be a device number from 0 to 1023, or "
            "{index: 0, memory: 80GiB, kind: h100}"
        ),
    ),
    "a device's memory without a unit": (
        f"fleet: {{gpus: [{{index: 0, memory: 80}}]}}\n{MODEL}",
        (
            "line 1: fleet.gpus[0] is a mapping; it must be a device number from 0 to 1023, or "
            "{index: 0, memory: 80GiB, kind: h100}; one of these is wrong: it must be a size from 1MiB to 1024GiB, such as "
            "512MiB or 16GiB; it has no unit: write 80MiB if you mean that"
        ),
    ),
    "one device twice, once with its memory": (
        f"fleet: {{gpus: [0, {{index: 0, memory: 80GiB}}]}}\n{MODEL}",
        "line 1: fleet.gpus names device 0 2 times; each stands once",
    ),
    "more memory than any device has": (
        "fleet: {gpus: [{index: 0, memory: 16GiB}]}\nmodels: {m: {engine: vllm, weights: a/b, gpus: 1, memory: 24GiB}}",
        "line 2: models.m.memory is 24GiB; 0 devices in fleet.gpus have so much memory, and a replica needs 1",
    ),
    "more GPUs of a kind than there are": (
        (
            "fleet: {gpus: [{index: 0, kind: l40s}, 1]}\n"
            "models: {m: {engine: vllm, weights: a/b, gpus: 1, kind: h100}}"
        ),
        "line 2: models.m.kind is h100; 0 devices in fleet.gpus are of that kind, and a replica needs 1",
    ),
    "nodes beside GPUs of this machine": (
        "fleet: {gpus: [0], nodes: {n1: {gpus: 8}}}\nmodels: {m: {engine: vllm, weights: a/b, gpus: 1}}",
        "line 1: fleet.nodes cannot stand together with fleet.gpus; leave one out",
    ),
    "more GPUs than the largest node has": (
        "fleet: {nodes: {n1: {gpus: 2}, n2: {gpus: 2}}}\nmodels: {m: {engine: vllm, weights: a/b, gpus: 4}}",
        "line 2: models.m.gpus is 4; it must be at most 2, the number of GPUs of the largest of fleet.nodes",
    ),
    "more memory than a GPU of any node has": (
        (
            "fleet: {nodes: {n1: {gpus: 2, memory: 24GiB, kind: l40s}, n2: {gpus: 1, memory: 80GiB, kind: h100}}}\n"
            "models: {m: {engine: vllm, weights: a/b, gpus: 1, kind: l40s, memory: 30GiB}}"
        ),
        "line 2: models.m.memory is 30GiB; 0 devices on one of fleet.nodes have so much memory, and a replica needs 1",
    ),
    "a node without GPUs": (
        "fleet: {nodes: {n1: {kind: h100}}}\nmodels: {m: {engine: vllm, weights: a/b}}",
        "line 1: fleet.nodes.n1.gpus is missing; it must be a whole number from 1 to 1024",
    ),
    "a kind of two words": (
        "fleet: {gpus: [{index: 0, kind: h 100}]}\nmodels: {m: {engine: vllm, weights: a/b, gpus: 1}}",
        (
            "line 1: fleet.gpus[0] is a mapping; it must be a device number from 0 to 1023, or "
            "{index: 0, memory: 80GiB, kind: h100}; one of these is wrong: it must be up to 64 letters, digits and . _ - "
            "and begin with a letter or digit"
        ),
    ),
    "half a character as a key": (
        f'{MODEL}\n"\\ud800": 1',
        "line 2: has a key with half a character in it, a surrogate on its own",
    ),
    "an escape of no character": (
        f'{MODEL}\nx: "\\UFFFFFFFF"',
        "this is not YAML: an escape names a character that does not exist",
    ),
    "a tag that its value does not keep": (
        "models: {m: {engine: vllm, weights: a/b, slots: !!int x}}",
        "line 1: models.m.slots has a YAML tag; plain values only",
    ),
    "half a character as a value": (
        'models: {m: {engine: vllm, weights: "\\udc00"}}',
        "line 1: models.m.weights has half a character in it, a surrogate on its own",
    ),
    "two doors on one port": (
        f"gateway: {{admin_port: 8400}}\n{MODEL}",
        "line 1: gateway.admin_port is 8400; it must differ from gateway.port, which is 8400 too",
    ),
    "a key in plain": (
        f"gateway: {{keys: [{{sha256: sk-live-1234, name: a}}]}}\n{MODEL}",
        (
            "line 1: gateway.keys[0].sha256 is (hidden); it must be the SHA-256 of the key as 64 hexadecimal digits "
            "(printf %s KEY | sha256sum), never the key itself"
        ),
    ),
    "a key as the name of a setting": (
        f"gateway: {{keys: [{{sk-live-1234: a, sha256: {SHA}, name: a}}]}}\n{MODEL}",
        "line 1: gateway.keys[0].(hidden) is not a known key; known are sha256, name, priority, weight, may_spill",
    ),
    "keys as a mapping": (
        f"gateway: {{keys: {{sk-live-1234: a}}}}\n{MODEL}",
        "line 1: gateway.keys is (hidden); it must be a list, such as [a, b]",
    ),
    "one key twice": (
        f"gateway: {{keys: [{{sha256: {SHA}, name: a}}, {{sha256: {SHA.upper()}, name: b}}]}}\n{MODEL}",
        "line 1: gateway.keys[1].sha256 is (hidden); gateway.keys[0] has it already; each key stands once",
    ),
    "one device twice": (
        f"fleet: {{gpus: [0, 1, 0]}}\n{MODEL}",
        "line 1: fleet.gpus names device 0 2 times; each stands once",
    ),
    "nothing to run": (
        "models: {m: {engine: vllm}}",
        "line 1: models.m needs weights, or static (addresses of running engines), for engine vllm",
    ),
    "no way to start an unknown engine": (
        "models: {m: {engine: openai, weights: a/b}}",
        "line 1: models.m needs static (addresses of running engines) or command (how to start one) for engine openai",
    ),
    "started and found running": (
        "models: {m: {engine: vllm, weights: a/b, static: ['http://h:1']}}",
        "line 1: models.m.weights cannot stand together with static, an engine that someone else runs; leave one out",
    ),
    "weights that are not there": (
        "models: {m: {engine: vllm, weights: ./nowhere}}",
        "line 1: models.m.weights is ./nowhere; it must be a file or folder that exists; there is none at BASE/nowhere",
    ),
    "weights of llama.cpp by repository": (
        "models: {m: {engine: llamacpp, weights: org/model}}",
        "line 1: models.m.weights is org/model; it must be a file or folder that exists; there is none at BASE/org/model",
    ),
    "weights of no shape": (
        "models: {m: {engine: vllm, weights: --trust-remote-code}}",
        (
            "line 1: models.m.weights is --trust-remote-code; it must be a path, a source (https://, s3:// or hf://), a "
            "repository name such as Qwen/Qwen3-32B that the engine fetches, or package:NAME/FILE for a file inside an "
            "installed Python package"
        ),
    ),
    "weights in a package that is not installed": (
        "models: {m: {engine: llamacpp, weights: package:no_such_model/m.gguf}}",
        (
            "line 1: models.m.weights is package:no_such_model/m.gguf; the Python package no_such_model must be installed "
            "(pip install no-such-model)"
        ),
    ),
    "weights that a package does not hold": (
        "models: {m: {engine: llamacpp, weights: package:tidegate/m.gguf}}",
        (
            "line 1: models.m.weights is package:tidegate/m.gguf; it must name a file that exists; "
            "the package tidegate has none called m.gguf"
        ),
    ),
    "weights outside the package": (
        "models: {m: {engine: llamacpp, weights: package:tidegate/../x}}",
        (
            "line 1: models.m.weights is package:tidegate/../x; it must be package:NAME/FILE, "
            "the path of a file inside a Python package"
        ),
    ),
    "weights outside the package by an absolute path": (
        "models: {m: {engine: llamacpp, weights: package:tidegate//etc/hostname}}",
        (
            "line 1: models.m.weights is package:tidegate//etc/hostname; it must be package:NAME/FILE, "
            "the path of a file inside a Python package"
        ),
    ),
    "a profile that nobody knows": (
        "models: {m: {engine: emulated, weights: llama-9b}}",
        f"line 1: models.m.weights is llama-9b; it must be the name of a profile: {', '.join(sorted(PROFILES))}",
    ),
    "fetching ahead for engines that someone else runs": (
        "models: {m: {engine: vllm, static: ['http://h:1'], prefetch: always}}",
        "line 1: models.m.prefetch cannot stand together with static, an engine that someone else runs; leave one out",
    ),
    "a folder where a file is read": (
        "models: {m: {engine: llamacpp, weights: .}}",
        "line 1: models.m.weights is .; it must be one file, which is what llamacpp reads; this is a folder",
    ),
    "a file where a folder is read": (
        "models: {m: {engine: vllm, weights: /etc/hostname}}",
        (
            "line 1: models.m.weights is /etc/hostname; it must be a folder with the model's files, "
            "which is what vllm reads; this is a file"
        ),
    ),
    "a whole repository where a file is read": (
        "weights: {hub_endpoint: 'https://hub.example'}\nmodels: {m: {engine: llamacpp, weights: hf://org/tiny}}",
        (
            "line 2: models.m.weights is hf://org/tiny; it must name one file, which is what llamacpp reads, "
            "such as hf://org/tiny/FILE"
        ),
    ),
    "one object where a folder is read": (
        "models: {m: {engine: vllm, weights: s3://models/tiny}}",
        (
            "line 1: models.m.weights is s3://models/tiny; it must be a folder with the model's files, which is what "
            "vllm reads, such as s3://models/tiny/"
        ),
    ),
    "a source with a password": (
        "models: {m: {engine: llamacpp, weights: 'https://me:secret@h.example/m.gguf'}}",
        (
            "line 1: models.m.weights is (hidden); an address must not hold a name and password; "
            "use a signed address or another source"
        ),
    ),
    "a signed address with a mistake": (
        "models: {m: {engine: llamacpp, weights: 'https://h.example/?X-Amz-Signature=abc'}}",
        "line 1: models.m.weights is (hidden); it must be https://HOST/PATH, the address of one file",
    ),
    "a hub that nobody has named": (
        "models: {m: {engine: vllm, weights: hf://org/tiny}}",
        (
            "line 1: models.m.weights is hf://org/tiny; weights.hub_endpoint, or HF_ENDPOINT in the environment, "
            "must say where hf:// is"
        ),
    ),
    "a bucket at a place that nobody has named": (
        "models: {m: {engine: vllm, weights: s3://models/tiny/}}",
        (
            "line 1: models.m.weights is s3://models/tiny/; weights.s3_endpoint, or AWS_ENDPOINT_URL_S3 in the "
            "environment, must say where s3:// is"
        ),
    ),
    "a checksum of what the engine fetches": (
        f"models: {{m: {{engine: vllm, weights: a/b, weights_sha256: {SHA}}}}}",
        (
            "line 1: models.m.weights_sha256 has a meaning only with weights that Tidegate fetches: "
            "https://, s3:// or hf://"
        ),
    ),
    "a checksum that is none": (
        "models: {m: {engine: vllm, weights: a/b, weights_sha256: abc}}",
        "line 1: models.m.weights_sha256 is abc; it must be a SHA-256: 64 hexadecimal digits in lower case",
    ),
    "a cache that is a file": (
        f"weights: {{cache_dir: /etc/hostname}}\n{MODEL}",
        "line 1: weights.cache_dir is /etc/hostname; it must be a folder; /etc/hostname is a file",
    ),
    "a state folder below a file": (
        f"fleet: {{state_dir: /etc/hostname/state}}\n{MODEL}",
        "line 1: fleet.state_dir is /etc/hostname/state; it must be a folder; /etc/hostname is a file",
    ),
    "an endpoint with a key": (
        f"weights: {{s3_endpoint: 'https://key:secret@s3.example'}}\n{MODEL}",
        (
            "line 1: weights.s3_endpoint is (hidden); it must be https://HOST, with a port and a path where they "
            "are needed, and without a key"
        ),
    ),
    "a first byte later than the last": (
        f"gateway: {{first_byte_timeout: 5m, request_timeout: 1m}}\n{MODEL}",
        "line 1: gateway.first_byte_timeout is 5m; it must be at most request_timeout, which is 1m",
    ),
    "a command of no program": (
        "models: {m: {engine: openai, command: [no-such-server, '{port}']}}",
        (
            "line 1: models.m.command begins with a program that is not there; it must be a path, or a name on the "
            "engine's PATH"
        ),
    ),
    "half a character in the environment": (
        'models: {m: {engine: vllm, weights: a/b, env: {A: "x\\ud800"}}}',
        "line 1: models.m.env.A has half a character in it, a surrogate on its own",
    ),
    "a LoRA adapter by one word": (
        "models: {m: {engine: vllm, weights: a/b, lora: {sql: sql}}}",
        "line 1: models.m.lora.sql is sql; it must be a file or folder that exists; there is none at BASE/sql",
    ),
    "a LoRA adapter that its engine cannot fetch": (
        "models: {m: {engine: trtllm, weights: a/b, lora: {sql: a/sql}}}",
        "line 1: models.m.lora.sql is a/sql; it must be a file or folder that exists; there is none at BASE/a/sql",
    ),
    "a LoRA adapter that is not there": (
        "models: {m: {engine: vllm, weights: a/b, lora: {sql: ./sql}}}",
        "line 1: models.m.lora.sql is ./sql; it must be a file or folder that exists; there is none at BASE/sql",
    ),
    "a LoRA adapter with a model's name": (
        "models: {m: {engine: vllm, weights: a/b, lora: {sql: a/sql}}, 'm:sql': {engine: vllm, weights: c/d}}",
        "line 1: models.m.lora.sql answers to m:sql, which is another model's name",
    ),
    "an address with a path": (
        "models: {m: {engine: openai, static: ['http://h:8000/v1']}}",
        "line 1: models.m.static[0] is http://h:8000/v1; it must be http://HOST:PORT and nothing more",
    ),
    "an address with a password": (
        "models: {m: {engine: openai, static: ['http://me:secret@h:8000']}}",
        "line 1: models.m.static[0] is (hidden); it must be http://HOST:PORT and nothing more",
    ),
    "an address beyond the last port": (
        "models: {m: {engine: openai, static: ['http://h:99999']}}",
        "line 1: models.m.static[0] is http://h:99999; it must be http://HOST:PORT with a port from 1 to 65535",
    ),
    "no address": (
        "models: {m: {engine: openai, static: []}}",
        "line 1: models.m.static is an empty list; it must hold at least one address",
    ),
    "one engine under two names of this machine": (
        "models: {a: {engine: openai, static: ['http://localhost:1', 'http://127.0.0.1:1']}}",
        "line 1: models.a.static[1] is http://127.0.0.1:1; models.a.static[0] has this address already",
    ),
    "one engine under two spellings of IPv6": (
        "models: {a: {engine: openai, static: ['http://[2001:db8::1]:1', 'http://[2001:DB8:0::0:1]:1']}}",
        "line 1: models.a.static[1] is http://[2001:DB8:0::0:1]:1; models.a.static[0] has this address already",
    ),
    "one engine under two spellings of its host": (
        "models: {a: {engine: openai, static: ['http://Engine:1', 'http://engine.:1']}}",
        "line 1: models.a.static[1] is http://engine.:1; models.a.static[0] has this address already",
    ),
    "one address twice": (
        "models: {a: {engine: openai, static: ['http://h:1']}, b: {engine: openai, static: ['http://h:1/']}}",
        "line 1: models.b.static[0] is http://h:1/; models.a.static[0] has this address already",
    ),
    "our own address": (
        "models: {m: {engine: openai, static: ['http://localhost:8400']}}",
        "line 1: models.m.static[0] is http://localhost:8400; Tidegate itself listens there (gateway.port)",
    ),
    "our own address as an upstream": (
        SPILL.format(more="address: 'http://127.0.0.1:8400/v1'"),
        "line 1: models.m.spill.address is http://127.0.0.1:8400/v1; Tidegate itself listens there (gateway.port)",
    ),
    "more replicas than addresses": (
        "models: {m: {engine: openai, static: ['http://h:1'], scaling: {max_replicas: 3}}}",
        "line 1: models.m.scaling.max_replicas is 3; it must be at most 1, the number of addresses in static",
    ),
    "more GPUs than there are": (
        "fleet: {gpus: [0]}\nmodels: {m: {engine: vllm, weights: a/b, gpus: 2}}",
        "line 2: models.m.gpus is 2; it must be at most 1, the number of devices in fleet.gpus",
    ),
    "more GPUs than the cap": (
        "fleet: {gpus: [0, 1], max_gpus: 1}\nmodels: {m: {engine: vllm, weights: a/b, gpus: 2}}",
        "line 2: models.m.gpus is 2; it must be at most fleet.max_gpus, which is 1",
    ),
    "a replica that costs more than all may": (
        "fleet: {max_cost: 2/h}\nmodels: {m: {engine: vllm, weights: a/b, price: 2.50/h}}",
        "line 2: models.m.price is 2.50/h; it must be at most fleet.max_cost, which is 2.00/h",
    ),
    "thresholds for another law": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {thresholds: {max_queue_depth: 9}}}}",
        (
            "line 1: models.m.scaling.thresholds has no meaning with policy tidal; "
            "set policy: thresholds or leave it out"
        ),
    ),
    "thresholds that cross": (
        "models: {m: {engine: vllm, weights: a/b, scaling: {policy: thresholds, thresholds: {min_queue_depth: 200}}}}",
        "line 1: models.m.scaling.thresholds.min_queue_depth is 200; it must be below max_queue_depth, which is 100",
    ),
    "a shift under a model's own name": (
        "models: {m: {engine: vllm, weights: a/b}}\nshifts: {m: {versions: {m: 1}}}",
        "line 2: shifts.m is a model's name; clients ask for a name that the versions share",
    ),
    "a version that is no model": (
        "models: {m: {engine: vllm, weights: a/b}}\nshifts: {s: {versions: {m: 1, n: 1}}}",
        "line 2: shifts.s.versions.n is not one of the models",
    ),
    "versions without any weight": (
        "models: {m: {engine: vllm, weights: a/b}}\nshifts: {s: {versions: {m: 0}}}",
        "line 2: shifts.s.versions must give at least one model a weight above 0",
    ),
    "a switch that is a word": (
        "models: {m: {engine: vllm, weights: a/b, resume: maybe}}",
        "line 1: models.m.resume is maybe; it must be true or false",
    ),
    "an address for the engine": (
        "models: {m: {engine: vllm, weights: a/b, args: [--port=9000]}}",
        "line 1: models.m.args[0] must not be --port; Tidegate chooses where engines listen",
    ),
    "a command without a port": (
        "models: {m: {engine: openai, command: [serve]}}",
        "line 1: models.m.command must contain {port}, or the engine cannot be told where to listen",
    ),
    "a command of nothing": (
        "models: {m: {engine: openai, command: []}}",
        "line 1: models.m.command is an empty list; it must begin with a program",
    ),
    "a command with a placeholder of its own": (
        "models: {m: {engine: openai, command: [serve, '{port}', '{gpu}']}}",
        (
            "line 1: models.m.command has the unknown placeholder {gpu}; it must be one of "
            "{host}, {port}, {model}, {weights}, {slots}, {gpus}"
        ),
    ),
    "a command for weights that are missing": (
        "models: {m: {engine: vllm, command: [serve, '{weights}', '{port}']}}",
        "line 1: models.m.command contains {weights}, but the model has none",
    ),
    "a first wait longer than the longest": (
        "models: {m: {engine: vllm, weights: a/b, restarts: {backoff_first: 2m}}}",
        "line 1: models.m.restarts.backoff_first is 2m; it must be at most backoff_max, which is 1m",
    ),
    "a start expected after its deadline": (
        "models: {m: {engine: vllm, weights: a/b, expected_start: 20m}}",
        "line 1: models.m.expected_start is 20m; it must be at most start_deadline, which is 10m",
    ),
}


def complaints(text, base):
    with pytest.raises(PolicyError) as caught:
        parse(text, "policy.yaml", base=base)
    return [str(problem).replace(str(base), "BASE") for problem in caught.value.problems]


@pytest.mark.parametrize("kind", KINDS)
def test_a_mistake_is_named_with_its_key_value_and_what_is_allowed(kind, tmp_path):
    text, expected = KINDS[kind]

    assert complaints(text, tmp_path) == [expected]


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file(tmp_path):
    text = textwrap.dedent("""\
        gateway:
          port: 70000
          admin_host: 0.0.0.0
        fleet:
          max_cost: 12
        models:
          small:
            engine: vlm
            scaling:
              min_replicas: 4
              max_replicas: 2
              windw: 5s
          large:
            engine: vllm
            gpus: 1
        """)

    with pytest.raises(PolicyError) as caught:
        parse(text, "policy.yaml", base=tmp_path)

    assert str(caught.value) == textwrap.dedent(f"""\
        policy.yaml: 8 problems
          line 2: gateway.port is 70000; it must be a whole number from 0 to 65535
          line 3: gateway.admin_host is 0.0.0.0; the admin pages ask for no key, so they are served on loopback only; use 127.0.0.1, and a proxy with a password for anybody else
          line 5: fleet.max_cost is 12; it must be a price per hour such as 2.50/h, up to 1000000/h; it has no unit: write 12/h if you mean that
          line 8: models.small.engine is vlm; it must be one of {ENGINES}; did you mean vllm?
          line 10: models.small.scaling.min_replicas is 4; it must be at most max_replicas, which is 2
          line 12: models.small.scaling.windw is not a known key; did you mean window?
          line 13: models.large needs weights, or static (addresses of running engines), for engine vllm
          line 15: models.large.gpus is 1; it must be at most 0, the number of devices in fleet.gpus""")


def test_one_mistake_does_not_bring_others_that_are_none(tmp_path):
    wrong_bound = "models: {m: {engine: vllm, weights: a/b, scaling: {min_replicas: 4, max_replicas: lots}}}"
    wrong_devices = "fleet: {gpus: [x]}\nmodels: {m: {engine: vllm, weights: a/b, gpus: 2}}"
    wrong_keys = f"gateway: {{host: 0.0.0.0, keys: [{{sha256: 1, name: a}}]}}\n{MODEL}"

    assert len(complaints(wrong_bound, tmp_path)) == 1
    assert len(complaints(wrong_devices, tmp_path)) == 1
    assert len(complaints(wrong_keys, tmp_path)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "gateway: {keys: [sk-live-1234]}",
        "gateway: {keys: sk-live-1234}",
        "gateway: {keys: {sk-live-1234: {a: b}}}",
        "gateway: {keys: [{sk-live-1234: b}]}",
        "gateway: {keys: [{sha256: sk-live-1234, sha256: sk-live-1234}]}",
        "gateway: {keys: [{sk-live-1234: 1, sk-live-1234: 2}]}",
        "gateway: {keys: [{name: *sk-live-1234 }]}",
        "gateway: {keys: [{name: &sk-live-1234 &x a}]}",
        "gateway:\n  keys:\n  - sha256: sk-live-1234\n   name: a",
        "gateway: {keys: [{name: !sk-live-1234! a}]}",
        "gateway: {keys: [{name: [sk-live-1234]}]}",
        "gateway: {keys: [{priority: sk-live-1234}]}",
        "models: {m: {engine: vllm, weights: a/b, env: sk-live-1234}}",
        "models: {m: {engine: vllm, weights: a/b, env: {K: [sk-live-1234]}}}",
        "models: {m: {engine: vllm, weights: a/b, args: [[sk-live-1234]]}}",
        "models: {m: {engine: vllm, weights: a/b, args: ['--port=sk-live-1234']}}",
        "models: {m: {engine: vllm, weights: a/b, command: [serve, --api-key, sk-live-1234]}}",
    ],
)
def test_a_secret_is_never_repeated(text, tmp_path):
    with pytest.raises(PolicyError) as caught:
        parse(text, base=tmp_path)

    assert "sk-live" not in str(caught.value)
    assert "sk-live" not in repr(caught.value)


def test_a_bomb_of_aliases_is_refused(tmp_path):
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]

    assert complaints("\n".join(levels), tmp_path) == ["the file holds more than 20000 values"]


def test_nesting_without_end_is_refused(tmp_path):
    assert complaints("[" * 1500, tmp_path) == ["values are nested too deeply"]
