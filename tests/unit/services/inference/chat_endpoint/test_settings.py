"""What is refused before any call: addresses, keys, and the system's proxy and certificates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from cluster.configs.loader import load_config
from cluster.errors import ConfigError
from services.inference.chat_endpoint.client import OpenAIClient
from services.inference.chat_endpoint.settings import EndpointRefusedError, EndpointSettings

KEY_VARIABLE = "ENTENTE_TEST_KEY"


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host/v1", "http://user:pw@host/v1", "http://host/v1?key=1"])
def test_invalid_urls_and_urls_with_secrets_are_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="base_url must"):
        EndpointSettings(base_url=url, model="m")


@pytest.mark.parametrize(
    "url",
    [
        "http://a..b/v1",
        f"http://{'a' * 64}.example/v1",
        "http://\u2488.example/v1",
        "http://xn--\u00fc.example/v1",
        "http://-\u00fc.example/v1",
        "http://1.2.3.999/v1",
        "http://[::1/v1",
        "http://[zz]/v1",
        "http://host:99999/v1",
        "http://host:port/v1",
        "http://ho st/v1",
        "http://ho\tst/v1",
        "http://host/v1\r\nX: y",
        "http://host/\x1b[31m",
        "http://\u202ehost/v1",
        f"http://host/{'v' * 1000}",
    ],
)
def test_urls_that_no_call_can_use_are_refused_with_the_config(url: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[opponents.remotes.chat]\nbase_url = {json.dumps(url)}\nmodel = "m"\n')
    reasons = "base_url (must be|is no|names a host)|a text has"
    with pytest.raises(ConfigError, match=rf"opponents\.remotes\.chat\.base_url: ({reasons})"):
        load_config(file)


@pytest.mark.parametrize("url", ["http://localhost:1/v1", "https://b\u00fccher.example/v1", "http://[::1]:8000/v1"])
def test_hosts_with_a_name_of_any_script_or_a_number_are_accepted(url: str) -> None:
    settings = EndpointSettings(base_url=url, model="m", max_retries=0)
    OpenAIClient("remote:test", settings)


@pytest.mark.parametrize("key", ["sk-\u00fc", "sk-a\x1b[31mb", "sk-a\nX: y", "sk-\udcff"])
def test_a_key_that_no_header_can_carry_is_refused(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, key)
    settings = EndpointSettings(base_url="http://127.0.0.1:1/v1", model="m", api_key_variable=KEY_VARIABLE)
    with pytest.raises(EndpointRefusedError, match=f"variable {KEY_VARIABLE} has characters that no key has"):
        OpenAIClient("remote:test", settings)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", "nonsense://proxy:1"),
        ("HTTP_PROXY", "http://a b:c"),
        ("HTTP_PROXY", "http://127.0.0.1:99999"),
        ("ALL_PROXY", "127.0.0.1:99999"),
        ("HTTP_PROXY", "http://\x1b[31m"),
        ("SSL_CERT_FILE", "/no/such/file"),
    ],
)
def test_a_proxy_or_certificates_that_cannot_be_used_are_named(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    settings = EndpointSettings(base_url="http://example.invalid/v1", model="m")
    with pytest.raises(
        EndpointRefusedError, match="check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE"
    ) as caught:
        OpenAIClient("remote:test", settings)
    assert str(caught.value).isprintable()
