SELECT {record}, p.bytes, p.content_type, p.is_json, t.write_token
FROM claimed AS t
LEFT JOIN payloads AS p ON p.id = t.id
ORDER BY t.rank, t.submit_time, t.id
